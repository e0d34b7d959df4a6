# Rules that use the archive: tables of optional experiments whose packages are not installed, and the comparison.

for stem in STEMS:
    if measured(stem):
        continue

    rule:
        name:
            stem
        input:
            archived=STAND_INS[stem],
            record=STAND_INS[stem].with_suffix(".meta.json"),
        output:
            table=ensure(table(stem), non_empty=True),
            meta=ensure(meta(stem), non_empty=True),
        log:
            f"{RESULTS}/logs/{stem}.log",
        params:
            code=study.experiment_hash(STUDY, stem),
        message:
            says(stem, f"taken from {STAND_INS[stem]}")
        shell:
            "python -m layernorm_backward take {input.archived} {output.table} 2>&1 | tee {log}"


rule comparison:
    input:
        tables=[table(stem) for stem in STEMS],
        archived=ARCHIVED,
    output:
        table=ensure(table("comparison"), non_empty=True),
        meta=ensure(meta("comparison"), non_empty=True),
    log:
        f"{RESULTS}/logs/comparison.log",
    priority: 1
    params:
        tables=tables_folder,
        code=code_hash("layernorm_backward.paper.comparison"),
    message:
        says("comparison", "which tables of this run agree with the archived ones?")
    shell:
        "python -m layernorm_backward comparison {params.tables} {output.table} 2>&1 | tee {log}"

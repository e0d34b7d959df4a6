# From tables and figures to the paper: claims judged, numbers collected, documents written.


rule claims:
    input:
        claims="paper/claims.yaml",
        tables=[table(stem) for stem in STEMS],
    output:
        table=ensure(table("claims"), non_empty=True),
        meta=ensure(meta("claims"), non_empty=True),
    log:
        f"{RESULTS}/logs/claims.log",
    params:
        tables=tables_folder,
        code=code_hash("layernorm_backward.paper.claims"),
    shell:
        "python -m layernorm_backward claims {input.claims} {params.tables} {output.table} 2>&1 | tee {log}"


rule numbers:
    input:
        TABLES,
        numbers="paper/numbers.yaml",
    output:
        numbers=ensure(f"{RESULTS}/numbers.json", non_empty=True),
    log:
        f"{RESULTS}/logs/numbers.log",
    params:
        tables=tables_folder,
        code=code_hash("layernorm_backward.paper.numbers"),
    shell:
        "python -m layernorm_backward numbers {params.tables} {output.numbers} 2>&1 | tee {log}"

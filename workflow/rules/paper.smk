# From tables and figures to the paper: judge the claims, collect the numbers, render the template, make the documents.

CLAIMS, NUMBERS, TEMPLATE = "paper/claims.yaml", "paper/numbers.yaml", "paper/paper.md.j2"
ATTEMPTS = "paper/attempts.csv"


rule claims:
    input:
        claims=CLAIMS,
        archived=ARCHIVED,
        tables=[table(stem) for stem in STEMS],
    output:
        table=ensure(table("claims"), non_empty=True),
        meta=ensure(meta("claims"), non_empty=True),
    log:
        f"{RESULTS}/logs/claims.log",
    priority: 1
    params:
        tables=tables_folder,
        claims=content_hash(CLAIMS),
        code=code_hash("layernorm_backward.paper.claims"),
    message:
        says("claims", "which claims do the tables confirm, correct or refute?")
    shell:
        "python -m layernorm_backward claims {input.claims} {params.tables} {output.table} 2>&1 | tee {log}"


rule numbers:
    input:
        TABLES,
        archived=ARCHIVED,
        numbers=NUMBERS,
    output:
        numbers=ensure(f"{RESULTS}/numbers.json", non_empty=True),
    log:
        f"{RESULTS}/logs/numbers.log",
    priority: 1
    params:
        tables=tables_folder,
        numbers=content_hash(NUMBERS),
        code=code_hash("layernorm_backward.paper.numbers"),
    message:
        says("numbers", "every number of the text, from the tables")
    shell:
        "python -m layernorm_backward numbers {input.numbers} {params.tables} {output.numbers} 2>&1 | tee {log}"


rule render:
    input:
        TABLES,
        FIGURES,
        template=TEMPLATE,
        attempts=ATTEMPTS,
        archived=ARCHIVED,
        numbers=rules.numbers.output.numbers,
    output:
        source=ensure(f"{RESULTS}/paper.pandoc.md", non_empty=True),
    log:
        f"{RESULTS}/logs/render.log",
    params:
        tables=tables_folder,
        figures=figures_folder,
        texts=content_hash(TEMPLATE, ATTEMPTS),
        code=code_hash("layernorm_backward.paper.render"),
    message:
        says("render", "the template filled in: the paper's one source")
    shell:
        "python -m layernorm_backward render {input.template} {input.numbers} {params.tables} {params.figures}"
        " {output.source} 2>&1 | tee {log}"


for suffix in DOCUMENTS:

    rule:
        name:
            f"paper_{suffix}"
        input:
            FIGURES,
            assets=ASSETS,
            source=rules.render.output.source,
        output:
            document=ensure(f"{RESULTS}/paper.{suffix}", non_empty=True),
        log:
            f"{RESULTS}/logs/paper_{suffix}.log",
        params:
            engine=ENGINE if suffix == "pdf" else "auto",
            assets=content_hash(*ASSETS),
            code=code_hash("layernorm_backward.paper.pandoc"),
        message:
            says(f"paper_{suffix}", f"{RESULTS}/paper.{suffix}")
        shell:
            "python -m layernorm_backward convert {input.source} {output.document} {params.engine} 2>&1 | tee {log}"

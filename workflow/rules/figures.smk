# One rule for each figure.

STYLE = "src/layernorm_backward/figures/style.mplstyle"

for stem in figures.FIGURES:

    rule:
        name:
            f"figure_{stem}"
        input:
            [table(name) for name in study.drawn_from(stem)],
            style=STYLE,
        output:
            pdf=ensure(figure(stem, "pdf"), non_empty=True),
            png=ensure(figure(stem, "png"), non_empty=True),
        log:
            f"{RESULTS}/logs/figure_{stem}.log",
        params:
            stem=stem,
            tables=tables_folder,
            style=content_hash(STYLE),
            code=study.figure_hash(stem),
        message:
            says(f"figure_{stem}", title(figures.module_name(stem)))
        shell:
            "python -m layernorm_backward figure {params.stem} {params.tables} {output.pdf} 2>&1 | tee {log}"

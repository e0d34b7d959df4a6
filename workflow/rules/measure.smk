# One rule for each experiment. Timed ones request all cores, so that nothing runs beside them.

for stem in filter(measured, STEMS):

    rule:
        name:
            stem
        input:
            config=study.config_path(STUDY, stem),
            tables=[table(need) for need in study.needs(stem)],
        output:
            table=ensure(table(stem), non_empty=True),
            meta=ensure(meta(stem), non_empty=True),
        log:
            f"{RESULTS}/logs/{stem}.log",
        priority: study.priority(stem)
        threads: study.threads(stem, all_cores)
        params:
            stem=stem,
            config=content_hash(study.config_path(STUDY, stem)),
            code=study.experiment_hash(STUDY, stem),
        message:
            says(stem, title(experiments.module_name(stem)))
        shell:
            "python -m layernorm_backward {params.stem} {input.config} {output.table} 2>&1 | tee {log}"

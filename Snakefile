# From config/<study>/ to the paper: snakemake --cores all [--config study=paper|smoke|full]
#
#   config/<study>/<stem>.yaml -> results/<study>/tables/<stem>.csv    workflow/rules/measure.smk
#   results/archive/*/<stem>.csv, in place of optional tables     workflow/rules/archive.smk
#   tables                     -> results/<study>/figures/<stem>.pdf   workflow/rules/figures.smk
#   tables, figures            -> claims, numbers, paper               workflow/rules/paper.smk


include: "workflow/rules/common.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/archive.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/paper.smk"


rule all:
    default_target: True
    input:
        TABLES,
        FIGURES,
        PAPER,
    message:
        says("all", f"tables, figures and paper of the study {STUDY}")


onstart:
    command = [sys.executable, "-m", "layernorm_backward", "check", STUDY]
    checked = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if checked.returncode:
        raise WorkflowError(checked.stderr)


onsuccess:
    whole = not workflow.dag_settings.targets  # else the paper may be that of an earlier run
    if whole and os.environ.get("SUMMARY") != "later" and all(Path(path).exists() for path in PAPER):
        shell("python -m layernorm_backward.studies.summary {RESULTS}")


onerror:
    said = "".join(Path(path).read_text(encoding="utf-8", errors="replace") for path in log)
    print(*study.errors(Path(RESULTS, "logs"), STARTED, said), sep="\n", file=sys.stderr)

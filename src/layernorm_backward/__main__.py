"""Commands to check and time layer normalizations, and every step of the workflow."""

import argparse
import difflib
import faulthandler
import importlib
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from time import perf_counter

from layernorm_backward import experiments, numba_cache
from layernorm_backward.records import tables
from layernorm_backward.untrusted import stdout, watch


def measure(stem: str, config_path: Path, table: Path) -> None:
    """Run one experiment with its config file; writes table, samples and meta."""
    from layernorm_backward.studies import measuring

    watch.update(step=stem, limit_s="inf")
    measuring.measure(stem, config_path, table)


def check(study: str) -> None:
    """Check the config files of a study and the source files of the paper, and report all faults."""
    from layernorm_backward.paper import sources
    from layernorm_backward.studies import study as studies

    if study not in studies.CHOICES["study"]:
        raise ValueError(f"no study is called {study!r}; there are: {', '.join(studies.CHOICES['study'])}")
    faults = [fault for stem in studies.stems(study) for fault in _faults(studies.config_path(study, stem))]
    if faults := [*faults, *sources.faults()]:
        raise ValueError("\nerror: ".join(faults))


def _faults(config_path: Path) -> list[str]:
    """What is wrong in a config file; nothing where packages that its experiment requires are missing."""
    from layernorm_backward.studies import config, measuring, study

    stem = config_path.stem
    name = experiments.module_name(stem)
    try:
        measuring.require_schema(stem)
        experiment = importlib.import_module(name)
        arguments = config.load(config_path, experiment.run, study.needs(stem))
        if study.on_device(stem):
            with measuring.explained(config_path):
                experiment.cells(**arguments)
    except ImportError:
        if not study.missing(stem):
            raise
    except (ValueError, OSError) as error:
        return _message(error).splitlines()
    return []


def figure(stem: str, tables_dir: Path, out: Path) -> None:
    """Draw the figure STEM from the tables in TABLES_DIR; writes OUT, a .pdf file, and a .png beside it."""
    from layernorm_backward.figures import _files

    if out.suffix != ".pdf":
        raise ValueError(f"{out}: allowed: a name that ends in .pdf; a .png file is written beside it")
    _files.write(stem, tables_dir, out)
    stdout.emit(f"{out}\n{out.with_suffix('.png')}")


def claims(claims_yaml: Path, tables_dir: Path, table: Path) -> None:
    """Judge every claim by its predicate over the tables; fails if one of ours does not hold."""
    from layernorm_backward.paper import claims as judge
    from layernorm_backward.records.record import begin, record

    started = begin(judge.__name__)
    judged = judge.run(claims_yaml, tables_dir)
    tables.write(judged, table, record({}, tables_dir.parent.name, started))
    judge.require(judged)


def comparison(tables_dir: Path, table: Path) -> None:
    """Compare a run's tables with the archived ones of the same study; writes one row per table."""
    from layernorm_backward.paper import comparison as compare
    from layernorm_backward.records.record import begin, record
    from layernorm_backward.studies import study

    started = begin(compare.__name__)
    name = tables_dir.parent.name
    if name not in study.CHOICES["study"]:
        allowed = " or ".join(f"results/{known}/tables" for known in study.CHOICES["study"])
        raise ValueError(f"{tables_dir}: its run is of no study; allowed: {allowed}")
    compared = compare.run(tables_dir, study.stems(name))
    tables.write(compared, table, record({}, name, started))


def take(archived: Path, table: Path) -> None:
    """Copy an archived table into a run, with a record of its origin."""
    from layernorm_backward.records import archive
    from layernorm_backward.studies import study

    tables.require_name(table, archived.stem)
    tables.read(archived)
    kernels = tables.read_meta(archived)["config"].get("kernels", ())
    archive.take(archived, table, study.recorded_hash(archived.stem, kernels))


def numbers(numbers_yaml: Path, tables_dir: Path, out: Path) -> None:
    """Compute every number that the paper prints; writes OUT as JSON."""
    from layernorm_backward.paper import numbers as collect

    collect.write(numbers_yaml, tables_dir, out)


def render(template: Path, numbers_json: Path, tables_dir: Path, figures_dir: Path, out: Path) -> None:
    """Fill the paper's template with the numbers of a run; writes OUT as Pandoc's Markdown."""
    from layernorm_backward.paper import render as fill

    fill.render(template, numbers_json, tables_dir, figures_dir, out)


def convert(source: Path, out: Path, pdf: str) -> None:
    """Make the document OUT (.md, .tex, .html or .pdf) of filled-in Markdown; PDF is auto, latex or typst."""
    from layernorm_backward.paper import pandoc

    pandoc.convert(source, out, pdf=pdf)


def promote(results: Path, machine: str) -> None:
    """Copy the tables of a study's run into results/archive/MACHINE, with their provenance."""
    from layernorm_backward.records import promote as archive

    stdout.emit(str(archive.promote(results, machine)))


def crate(folder: Path) -> None:
    """Rewrite the machine-readable metadata (RO-Crate) of an archive folder, for a new CITATION.cff."""
    from layernorm_backward.records import crate as metadata

    stdout.emit(str(metadata.write(folder)))


def compile_kernels() -> None:
    """Compile the Numba kernels into Numba's cache, from which later processes load them."""
    from layernorm_backward import compilation

    compilation.compile_all()


_COMMANDS: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "compile": (compile_kernels, ()),
    "check": (check, ("study",)),
    "figure": (figure, ("stem", "tables_dir", "out")),
    "claims": (claims, ("claims_yaml", "tables_dir", "table")),
    "comparison": (comparison, ("tables_dir", "table")),
    "take": (take, ("archived", "table")),
    "numbers": (numbers, ("numbers_yaml", "tables_dir", "out")),
    "render": (render, ("template", "numbers_json", "tables_dir", "figures_dir", "out")),
    "convert": (convert, ("source", "out", "pdf")),
    "promote": (promote, ("results", "machine")),
    "crate": (crate, ("folder",)),
}
_TEXT = frozenset({"stem", "study", "pdf", "machine"})


def _parsed(words: list[str]) -> argparse.Namespace:
    """The arguments of a command; of an unknown one, the error names those with similar names."""
    parser, known = _parser()
    if words and words[0] not in known and not words[0].startswith("-"):
        near = " or ".join(difflib.get_close_matches(words[0], known))
        hint = f"is {near} meant? " if near else ""
        parser.error(f"no command is called {words[0]!r}; {hint}--help lists all")
    return parser.parse_args(words)


def _parser() -> tuple[argparse.ArgumentParser, Collection[str]]:
    """The parser, and the names of all commands."""
    parser = argparse.ArgumentParser(prog="python -m layernorm_backward", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    own = "check a layer norm of yours (`audit --help`); `audit CONFIG TABLE` measures the table audit"
    parsers = {"audit": commands.add_parser("audit", help=own, description=measure.__doc__)}
    commands.add_parser(
        "bench", help="time a layer norm of yours beside the memory roof and our kernels (`bench --help`)"
    )
    commands.add_parser(
        "gpu", help="check the CUDA kernels on this GPU and measure all its tables (`gpu --help`)"
    )
    for name, (function, arguments) in _COMMANDS.items():
        step = commands.add_parser(name, help=function.__doc__, description=function.__doc__)
        step.set_defaults(function=function)
        _add_arguments(step, arguments)
    for stem in experiments.EXPERIMENTS:
        if stem not in parsers:
            about = {"help": f"measure the table {stem}", "description": measure.__doc__}
            parsers[stem] = commands.add_parser(stem, **about)
        parsers[stem].set_defaults(function=measure, stem=stem)
        _add_arguments(parsers[stem], ("config_path", "table"))
    return parser, commands.choices


def _add_arguments(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    for name in names:
        parser.add_argument(name, type=str if name in _TEXT else Path, metavar=name.upper())


def _names_an_implementation(words: list[str]) -> bool:
    """Whether it is `audit MODULE:NAME`, and not `audit CONFIG TABLE`, the experiment."""
    return words[:1] == ["audit"] and not any(word.endswith(".yaml") for word in words[1:2])


def _runs_foreign_code(words: list[str]) -> bool:
    """Whether foreign code is run, which may end the process or hang."""
    if words[:1] == ["bench"] or _names_an_implementation(words):
        return True
    if len(words) < 2 or words[0] not in experiments.EXPERIMENTS:
        return False
    from layernorm_backward.studies import study

    return study.names_foreign(Path(words[1]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; Ctrl-C ends it in one line and exit code 130."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        with stdout.kept():
            return _run(words)
    except numba_cache.NoFolderError as error:
        print(f"error: {error}", file=sys.stderr)
        return watch.COULD_NOT_BE_RUN if _runs_foreign_code(words) else 1
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return watch.INTERRUPTED


def _run(words: list[str]) -> int:
    """Run one command; an error in a config, a table, a value or a file ends in one line and exit code 1."""
    started = perf_counter()
    numba_cache.ensure()
    if words[:1] == ["bench"]:
        from layernorm_backward import bench_options

        given = vars(bench_options.parser().parse_args(words[1:]))
        from layernorm_backward.bench import command

        return command.main(given, spent_s=perf_counter() - started)
    if words[:1] == ["gpu"]:
        from layernorm_backward.gpu import command

        return command.main(words[1:], spent_s=perf_counter() - started)
    if _names_an_implementation(words):
        from layernorm_backward.audit import command

        return command.main(words[1:])
    arguments = vars(_parsed(words))
    function = arguments.pop("function")
    try:
        function(**arguments)
    except (ValueError, OSError, MemoryError) as error:
        print(f"error: {_message(error, _output_path(arguments))}", file=sys.stderr)
        return 1
    return 0


def _output_path(arguments: dict[str, object]) -> str:
    """The file or folder that a command writes, its last path argument."""
    return next((str(value) for value in reversed(arguments.values()) if isinstance(value, Path)), "")


def _message(error: Exception, output: str = "") -> str:
    """An error in one line, with its path, or `output` if the error names none."""
    if isinstance(error, MemoryError):
        return ": ".join(filter(None, (output, "out of memory", str(error))))
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(filter(None, (str(error.filename or output), error.strerror)))
    return str(error)


if __name__ == "__main__":
    if _runs_foreign_code(sys.argv[1:]):
        sys.exit(watch.watched(main))
    faulthandler.enable()
    sys.exit(main())

"""The numbers of the README are those of the archived tables: each sentence is written anew from them."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest

from layernorm_backward.paper import claims
from layernorm_backward.paper.formats import downward, upward
from layernorm_backward.records import archive
from workspace import ROOT

NEWEST = "xeon6-2core"
PAGED = "xeon5-2core"  # where a triad that reads pages in turn is far faster than one that does not
OTHERS = PAGED, "epyc-avx512-2core", "epyc-2core", "epyc3-2core"
ARCHIVE = ROOT / "results" / "archive"
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
WIDE, NARROW = ("float64", "float32"), ("float16", "bfloat16")
EVEN = [2**power for power in range(6, 17)] + [768, 3072, 5120, 12288]
RAGGED = [65, 1023, 1025, 4095, 16383]


def read(machine: str, stem: str) -> pd.DataFrame:
    return pd.read_csv(ARCHIVE / machine / f"{stem}.csv", keep_default_na=False, na_values=[""])


def record(machine: str, stem: str) -> dict:
    return json.loads((ARCHIVE / machine / f"{stem}.meta.json").read_text(encoding="utf-8"))


def reach(rows: pd.DataFrame, column: str = "roof_fraction") -> str:
    return f"{rows[column].min():.2f} to {rows[column].max():.2f}"


def cpu_rows(machine: str, direction: str, dtypes: tuple[str, ...]) -> pd.DataFrame:
    rows = read(machine, "timing_cpu")
    rows = rows[(rows["kernel"] == "numba_fused") & (rows["direction"] == direction)]
    rows = rows[(rows["residency"] == "memory") & rows["dtype"].isin(dtypes)]
    return rows[rows["threads"] == rows["threads"].max()]


def on_a_cpu(machine: str) -> str:
    """Its row of the table: fractions of the roof on all threads beyond the cache, and floors."""
    kinds = [(way, dtypes) for way in ("backward", "forward") for dtypes in (WIDE, NARROW)]
    reached = [reach(cpu_rows(machine, *kind)) for kind in kinds]
    name = f"`{machine}`, {record(machine, 'timing_cpu')['machine']['cpu']}"
    return cells(name, code_of(machine), *reached, missed_floors(machine))


def on_the_gpu(note: str, sizes: list[int]) -> str:
    """A row of the table for rows of such sizes, in float32 and bfloat16, with gamma in either."""
    kinds = [(way, dtype) for way in ("backward", "forward") for dtype in ("float32", "bfloat16")]
    reached = [reach(gpu_rows(sizes, *kind)) for kind in kinds]
    name = f"`nvidia-h200`, {record('nvidia-h200', 'timing_gpu')['machine']['gpu']} {note}"
    return cells(name, code_of("nvidia-h200", "timing_gpu"), *reached, "")


def cells(*texts: str) -> str:
    return " ".join(f"| {text}" if text else "|" for text in texts) + " |"


def code_of(machine: str, stem: str = "timing_cpu") -> str:
    found = record(machine, stem)
    return f"{found['commit'][:7]}, {found['date'][:10]}"


def gpu_rows(sizes: list[int], direction: str, dtype: str) -> pd.DataFrame:
    rows = read("nvidia-h200", "timing_gpu")
    rows = rows[(rows["kernel"] == "cuda_fused") & (rows["direction"] == direction)]
    return rows[(rows["residency"] == "memory") & (rows["dtype"] == dtype) & rows["hidden"].isin(sizes)]


def timed_rows(sizes: list[int]) -> str:
    """Which of such rows were timed backward, and which forward."""
    backward, forward = (
        listed(sorted(gpu_rows(sizes, way, "float32")["hidden"])) for way in ("backward", "forward")
    )
    begin = "which do not begin at multiples of 16 bytes"
    assert set(read("nvidia-h200", "timing_gpu")["hidden"]) <= {*sizes, *EVEN}
    return f"Rows of {backward} elements, {begin}; forward {forward}. Both in float32 and bfloat16 only"


def listed(numbers: list[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}"


def in_pages() -> str:
    higher = "bandwidth is higher for accesses that alternate between several pages"
    reached = reach(cpu_rows(PAGED, "backward", WIDE), "pages_fraction")
    told = f"Against a triad with that access pattern, the kernel reaches {reached} backward"
    return f"On `{PAGED}` {higher}, as the kernel's do on short rows. {told}"


def strong_peers() -> str:
    rows = peers_on_gpu()
    rows = rows[rows["kernel"].isin(("quack", "torch_compile"))]
    taken = {
        way: f"{one.min():.2f} to {one.max():.2f}" for way, one in rows.groupby("direction")["ours_ratio"]
    }
    told = f"{taken['backward']} times as long as our kernel backward, and {taken['forward']} forward"
    where = f"QuACK and torch.compile were timed at {rows['hidden'].nunique()} row lengths"
    return f"{where}. {fastest()}, and take {told}"


def other_peers() -> str:
    rows = peers_on_gpu()
    rows = rows[~rows["kernel"].isin(("quack", "torch_compile"))]
    least = {way: downward(one.min(), 2) for way, one in rows.groupby("direction")["ours_ratio"]}
    small = peers_on_gpu("cold")
    assert set(small["direction"]) == {"backward"}
    assert small["kernel"].isin(rows["kernel"]).all()
    large = f"at least {least['backward']:.2f} times as long backward, and {least['forward']:.2f} forward"
    return f"All others take {large}; on small arrays {downward(small['ours_ratio'].min(), 2):.2f} backward"


def lost_forward() -> str:
    rows = peers_on_gpu()
    rows = rows[rows["direction"] == "forward"]
    best = rows.groupby(["dtype", "gamma_dtype", "hidden", "rows"])["ours_ratio"].min()
    return f"Forward the fastest peer is faster than our kernel in {(best < 1).sum()} of {len(best)} cells"


def peers_on_gpu(residency: str = "memory") -> pd.DataFrame:
    rows = read("nvidia-h200", "timing_gpu")
    rows = rows[(rows["residency"] == residency) & rows["ours_ratio"].notna()]
    return rows[~rows["kernel"].str.startswith("cu")]


def published() -> str:
    """By today's rules, over tables of a CPU and, where that has none of its own, of a GPU and other CPUs."""
    with TemporaryDirectory() as folder:
        for machine in ("nvidia-h200", *OTHERS, NEWEST):
            for path in (ARCHIVE / machine).glob("*.csv"):
                archive.take(path, Path(folder) / path.name, code_here="")
        judged = claims.run(ROOT / "paper" / "claims.yaml", Path(folder))
    verdicts = judged[judged["origin"] == "published"].set_index("claim")["verdict"]
    many = verdicts.value_counts()
    refuted = ", ".join(f"`{name}`" for name in verdicts.index[verdicts == "refuted"])
    counts = f"{many['confirmed']} confirmed, {many['corrected']} corrected and {many['refuted']} refuted"
    return f"of {len(verdicts)} published claims {counts} ({refuted})"


def errors() -> str:
    rows = read(NEWEST, "backward_error")
    rows = rows[(rows["dtype"] == "float32") & (rows["quantity"] == "dx")]
    at = (rows["kernel"] == "compact") & (rows["upstream"] == "shifted") & (rows["kappa"] == 1e6)
    at &= rows["hidden"] == 1024
    most = rows.loc[rows["kernel"].isin(("recentred", "numba_fused")), "error_u_max"].max()
    thousands = rows.loc[at, "error_u_max"].item() / 1e3
    told = f"The re-centred kernels err by at most {upward(most, 1):.1f} u at any kappa and D measured"
    return f"errs by {thousands:.0f} thousand u in dx. {told}"


def bounds() -> str:
    rows = read(NEWEST, "mean_path")
    assert rows["violations"].sum() == 0
    return f"None of {rows['bounded_rows'].sum():.0f} errors exceeds its bound"


def missed_floors(machine: str) -> str:
    """How many are missed, and how many in every cell, of those that its run judged."""
    judged = read(machine, "claims").set_index("claim")
    judged = judged[judged.index.str.endswith("-floor")]
    missed = judged[judged["verdict"] != "confirmed"]
    assert len(missed)
    cells = missed["reason"].str.extract(r"(\d+) of (\d+) cells? miss")
    return f"{len(missed)} of {len(judged)} ({(cells[0] == cells[1]).sum()})"


def example() -> str:
    """The row that is explained: any with floors that are missed in every cell."""
    counts = missed_floors("epyc-2core")
    missed, everywhere = re.fullmatch(r"(\d+ of \d+) \((\d+)\)", counts).groups()
    told = f"says that {missed} floors are missed, in some cell or in the mean, and {everywhere} of them"
    return f'"{counts}" {told} in every cell'


def fastest() -> str:
    """In how many cells in which one of the two was timed another peer is the fastest."""
    strong, keys = ("quack", "torch_compile"), ["direction", "dtype", "gamma_dtype", "hidden", "rows"]
    rows = peers_on_gpu().set_index(keys)
    timed = rows.loc[rows.index.isin(rows[rows["kernel"].isin(strong)].index)].reset_index()
    best = timed.loc[timed.groupby(keys)["ours_ratio"].idxmin(), "kernel"]
    assert (~best.isin(strong)).sum() == 1
    return "There they are the fastest peers in every cell but one"


SENTENCES = {
    **{machine: lambda machine=machine: on_a_cpu(machine) for machine in (NEWEST, *OTHERS)},
    "H200": lambda: on_the_gpu("(1)", EVEN),
    "H200, other rows": lambda: on_the_gpu("(2)", RAGGED),
    "H200, which other rows": lambda: timed_rows(RAGGED),
    "floors, explained": example,
    "H200, peers": strong_peers,
    "H200, other peers": other_peers,
    "H200, forward": lost_forward,
    "triad in pages": in_pages,
    "published claims": published,
    "errors": errors,
    "bounds": bounds,
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_readme_says_what_the_archived_tables_say(name: str) -> None:
    assert SENTENCES[name]() in README

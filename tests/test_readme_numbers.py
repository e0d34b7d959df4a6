"""The numbers of the README are those of the archived tables: each sentence is written anew from them."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest

from layernorm_backward.paper import claims
from layernorm_backward.paper.formats import downward
from layernorm_backward.paper.selection import select
from layernorm_backward.records import archive
from workspace import ROOT

NEWEST = "xeon5-2core"
OTHERS = "xeon6-2core", "epyc-avx512-2core", "epyc-2core"
ARCHIVE = ROOT / "results" / "archive"
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
WIDE, NARROW = ("float64", "float32"), ("float16", "bfloat16")
EVEN = [2**power for power in range(6, 15)]
RAGGED = [65, 1023, 1025, 4095, 16383]
FLOORS = [f"goal-{name}-floor" for name in ("backward-all-short", "backward-all-long")]
FLOORS += [f"goal-{name}-floor" for name in ("backward-one-short", "backward-one-long", "half")]


def read(machine: str, stem: str) -> pd.DataFrame:
    return pd.read_csv(ARCHIVE / machine / f"{stem}.csv", keep_default_na=False, na_values=[""])


def record(machine: str, stem: str) -> dict:
    return json.loads((ARCHIVE / machine / f"{stem}.meta.json").read_text(encoding="utf-8"))


def reach(rows: pd.DataFrame, column: str = "roof_fraction") -> str:
    return f"{rows[column].min():.2f} to {rows[column].max():.2f}"


def on_cpu(machine: str, column: str = "roof_fraction") -> str:
    """Fractions of a triad, in order or in pages, of the backward pass on all threads, beyond the cache."""
    return reach(cpu_rows(machine, "backward", WIDE), column)


def cpu_rows(machine: str, direction: str, dtypes: tuple[str, ...]) -> pd.DataFrame:
    rows = read(machine, "timing_cpu")
    rows = rows[(rows["kernel"] == "numba_fused") & (rows["direction"] == direction)]
    rows = rows[(rows["residency"] == "memory") & rows["dtype"].isin(dtypes)]
    return rows[rows["threads"] == rows["threads"].max()]


def narrow_on_cpu() -> str:
    backward, forward = (reach(cpu_rows(NEWEST, way, NARROW)) for way in ("backward", "forward"))
    return f"In 16 bits it reaches {backward} of its own triad there and, forward, {forward} of its own copy"


def on_gpu(sizes: list[int], direction: str = "backward") -> str:
    return reach(gpu_rows(sizes, direction))


def gpu_rows(sizes: list[int], direction: str) -> pd.DataFrame:
    rows = read("nvidia-h200", "timing_gpu")
    rows = rows[(rows["kernel"] == "cuda_fused") & (rows["direction"] == direction)]
    rows = rows[(rows["residency"] == "memory") & rows["dtype"].isin(("float32", "bfloat16"))]
    return rows[(rows["gamma_dtype"] == rows["dtype"]) & rows["hidden"].isin(sizes)]


def ragged_forward() -> str:
    *most, last = sorted(gpu_rows(RAGGED, "forward")["hidden"].unique())
    sizes = f"{', '.join(map(str, most))} and {last}"
    return f"forward such rows, of {sizes}, reach {on_gpu(RAGGED, 'forward')} of the copy"


def strong_peers() -> str:
    rows = peers_on_gpu()
    rows = rows[rows["kernel"].isin(("quack", "torch_compile"))]
    taken = {
        way: f"{one.min():.2f} to {one.max():.2f}" for way, one in rows.groupby("direction")["ours_ratio"]
    }
    lengths = rows["hidden"].nunique()
    told = f"take {taken['backward']} times as long backward and {taken['forward']} forward"
    return f"QuACK and torch.compile, the fastest peers, timed at {lengths} row lengths, {told}"


def other_peers() -> str:
    rows = peers_on_gpu()
    rows = rows[~rows["kernel"].isin(("quack", "torch_compile"))]
    least = {way: downward(one.min(), 2) for way, one in rows.groupby("direction")["ours_ratio"]}
    small = peers_on_gpu("cold")
    assert set(small["direction"]) == {"backward"}
    assert small["kernel"].isin(rows["kernel"]).all()
    large = f"{least['backward']:.2f} or more backward and {least['forward']:.2f} or more forward"
    told = f"{downward(small['ours_ratio'].min(), 2):.2f} or more backward on small arrays"
    return f"all others {large}, and {told}"


def lost_forward() -> str:
    rows = peers_on_gpu()
    rows = rows[rows["direction"] == "forward"]
    best = rows.groupby(["dtype", "gamma_dtype", "hidden", "rows"])["ours_ratio"].min()
    lost = f"in {(best < 1).sum()} of {len(best)} cells"
    return f"Forward the fastest peer is faster than the kernel {lost}"


def peers_on_gpu(residency: str = "memory") -> pd.DataFrame:
    rows = read("nvidia-h200", "timing_gpu")
    rows = rows[(rows["residency"] == residency) & rows["ours_ratio"].notna()]
    return rows[~rows["kernel"].str.startswith("cu")]


def published() -> str:
    """By today's rules, over tables of a CPU and, where that has none of its own, of a GPU."""
    with TemporaryDirectory() as folder:
        for machine in ("nvidia-h200", NEWEST):
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
    told = f"the re-centred kernels by at most {most:.1f} u at any kappa and D measured"
    return f"errs by {thousands:.0f} thousand u in dx, {told}"


def bounds() -> str:
    rows = read(NEWEST, "mean_path")
    assert rows["violations"].sum() == 0
    return f"none of {rows['bounded_rows'].sum():.0f} errors exceeds its bound"


def floors() -> str:
    there = missed_floors("epyc-2core")
    missed, never = missed_floors(NEWEST)
    told = "floors for the speed of the backward pass are missed in some cell"
    both = f"{missed} of {len(FLOORS)} {told}, {never or 'none'} in every cell"
    return f"On `{NEWEST}` {both} (on `epyc-2core` {there[0]} and {there[1]})"


def memory_floor() -> str:
    verdicts = read(NEWEST, "claims").set_index("claim")["verdict"]
    assert verdicts["goal-memory-floor"] == "corrected"  # missed in some cell
    return "and so is that for memory. That for the forward pass"


def forward_floors() -> str:
    """By today's floors, over the archived cells."""
    floors = {claim.id: claim for claim in claims.load(ROOT / "paper" / "claims.yaml")}
    wide, half = (floors[f"goal-forward-{kind}"] for kind in ("floor", "half-floor"))
    assert wide.tolerance == half.tolerance
    both = f"{missed_cells(wide)} cells in float32 and float64 and in {missed_cells(half)} in 16 bits"
    return f"That for the forward pass, at least {wide.tolerance:.2f} of the copy, is missed in {both}"


def missed_cells(floor: claims.Claim) -> str:
    rows = select(read(NEWEST, "timing_cpu"), floor.tables["timing_cpu"] | {"residency": "memory"})
    return f"{(rows['roof_fraction'] < floor.tolerance).sum()} of {len(rows)}"


def few_rows() -> str:
    """By machine where it was judged: the claim is younger than some archived runs."""
    verdicts = {it: read(it, "claims").set_index("claim")["verdict"] for it in (NEWEST, *OTHERS)}
    judged = {it: found.get("goal-peers-small-floor") for it, found in verdicts.items()}
    missed = [machine for machine, verdict in judged.items() if verdict not in ("confirmed", None)]
    told = "missed there in some cell, and" if NEWEST in missed else "reached there, but not"
    (elsewhere,) = [machine for machine in missed if machine != NEWEST]
    return f"that for calls on few rows is {told} on `{elsewhere}`"


def missed_floors(machine: str) -> tuple[int, int]:
    """How many are missed in some cell, and how many in every cell."""
    verdicts = read(machine, "claims").set_index("claim")["verdict"]
    return (verdicts[FLOORS] != "confirmed").sum(), (verdicts[FLOORS] == "refuted").sum()


def measured(machine: str, stem: str) -> str:
    found = record(machine, stem)
    return f"measured on {found['date'][:10]} at commit {found['commit'][:7]}"


def reached_everywhere() -> str:
    """A floor is missed on each machine of the archive that judged them."""
    for machine in (NEWEST, *OTHERS):
        verdicts = read(machine, "claims").set_index("claim")["verdict"]
        assert (verdicts[verdicts.index.str.endswith("-floor")] != "confirmed").any(), machine
    return "no machine reaches every floor"


SENTENCES = {
    "machine": lambda: f"`{NEWEST}`: {record(NEWEST, 'timing_cpu')['machine']['cpu']}, measured",
    "first figure": lambda: measured(NEWEST, "timing_cpu"),
    "second figure": lambda: f"NVIDIA H200, {measured('nvidia-h200', 'timing_gpu')}",
    "its fractions": lambda: f"the kernel reaches {on_cpu(NEWEST)} of the triad there",
    "of pages": lambda: f"there, and {on_cpu(NEWEST, 'pages_fraction')} of one that",
    "16 bits": narrow_on_cpu,
    "others": lambda: ", ".join(f"{on_cpu(machine)} on `{machine}`" for machine in OTHERS),
    "GPU": lambda: f"{on_gpu(EVEN)} of the triad on rows of a power of two up to {EVEN[-1]} elements",
    "GPU, other rows": lambda: (
        f"and {on_gpu(RAGGED)} on rows of {', '.join(map(str, RAGGED[:-1]))} and {RAGGED[-1]},"
    ),
    "GPU, other rows, forward": ragged_forward,
    "GPU, peers": strong_peers,
    "GPU, other peers": other_peers,
    "GPU, forward": lost_forward,
    "published claims": published,
    "errors": errors,
    "bounds": bounds,
    "floors": floors,
    "memory floor": memory_floor,
    "forward floors": forward_floors,
    "few rows": few_rows,
    "all machines": reached_everywhere,
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_readme_says_what_the_archived_tables_say(name: str) -> None:
    assert SENTENCES[name]() in README

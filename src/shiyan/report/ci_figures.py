"""CCiV's heat maps (Figure 3, Appendix B), and reasoning beside the ci it led to (Figure 10)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiyan.config import PathsParams
from shiyan.jsonl import read_records, replacing
from shiyan.records import CiCheck, Poem, Reply
from shiyan.report.figures import NO_FONT
from shiyan.report.fonts import Labels, chosen_font

Row = Mapping[str, str]
WHAT = {"structure": "Structure kept", "tonal": "Tone kept"}
FORMS = {"standard": "the standard form", "any": "any historic form"}
PROMPTS = ("direct", "form_aware")
"""These first; a run's other prompts follow."""
HUMAN = "human"


def heat_maps(rows: Sequence[Row], folder: Path) -> Iterator[Path]:
    """One picture for structure and tone, by the standard and by any form.

    A panel a prompt; in it a line a model, the human ci on top, a column a cipai, from
    short to long. White is none of the ci, grey that no ci came.
    """
    prompts = dict.fromkeys(row["prompt_id"] for row in rows if row["prompt_id"])
    ordered = [p for p in PROMPTS if p in prompts] + [p for p in prompts if p not in PROMPTS]
    if not ordered:
        return
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    font = chosen_font()
    folder.mkdir(parents=True, exist_ok=True)
    for what, words in WHAT.items():
        for form, told in FORMS.items():
            with mpl.rc_context({"font.family": font.families, "axes.unicode_minus": False}):
                figure = Figure(layout="constrained")
                FigureCanvasAgg(figure)
                labels = Labels(font)
                draw_panels(figure, rows, ordered, f"{what}_{form}", labels)
                figure.suptitle(f"{words} by {told}, % of ci (CCiV, Figure 3)", fontsize=11)
                if labels.are_numbered:
                    figure.text(0.01, 0.005, NO_FONT, fontsize=7)
                path = folder / f"heat_map_{what}_{form}.png"
                figure.savefig(path, dpi=130)
            yield path


def draw_panels(
    figure: Any, rows: Sequence[Row], prompts: Sequence[str], score: str, labels: Labels
) -> None:
    """A panel a prompt, all with the same columns and one scale."""
    length = {row["cipai"]: int(row["standard_characters"]) for row in rows}
    # The table has long cipai first; reversed, equal ones stand as in Figure 3.
    cipai = list(length)[::-1]
    lines = {
        prompt: [HUMAN, *dict.fromkeys(r["generator"] for r in rows if r["prompt_id"] == prompt)]
        for prompt in prompts
    }
    heights = [len(names) for names in lines.values()]
    figure.set_size_inches(2.2 + 0.36 * len(cipai), 2.2 + 0.42 * sum(heights) + 0.9 * len(prompts))
    panels = figure.subplots(len(prompts), 1, squeeze=False, height_ratios=heights)[:, 0]
    image = None
    for panel, prompt in zip(panels, prompts, strict=True):
        image = draw_panel(panel, rows, lines[prompt], cipai, prompt, score)
        panel.set_title(prompt, fontsize=9, loc="left")
        panel.set_yticks(range(len(lines[prompt])), lines[prompt], fontsize=8)
        ticks = [f"{vertical(labels(name))}\n{length[name] or '?'}" for name in cipai]
        panel.set_xticks(range(len(cipai)), ticks, fontsize=7)
        panel.tick_params(length=0)
    figure.colorbar(image, ax=list(panels), shrink=0.8, pad=0.01).ax.tick_params(labelsize=7)


def vertical(name: str) -> str:
    """One character under the other, as Chinese is set on a spine; an ASCII label stays whole."""
    return name if name.isascii() else "\n".join(name)


def draw_panel(
    panel: Any,
    rows: Sequence[Row],
    generators: Sequence[str],
    cipai: Sequence[str],
    prompt: str,
    score: str,
) -> Any:
    """The cells of one prompt, each with its number."""
    import numpy as np

    wanted = {(HUMAN, ""), *((generator, prompt) for generator in generators)}
    value = {
        (row["generator"], row["cipai"]): 100 * float(row[score])
        for row in rows
        if (row["generator"], row["prompt_id"]) in wanted and row[score] != ""
    }
    grid = np.array([[value.get((g, c), np.nan) for c in cipai] for g in generators])
    panel.set_facecolor("0.8")
    image = panel.imshow(grid, cmap="YlGnBu", vmin=0, vmax=100, aspect="auto")
    for (line, column), number in np.ndenumerate(grid):
        if np.isfinite(number):
            shade = "white" if number > 60 else "0.25"
            panel.text(
                column, line, f"{number:.0f}", ha="center", va="center", fontsize=6, color=shade
            )
    return image


# --- reasoning ----------------------------------------------------------------------


def reasoning(paths: PathsParams, folder: Path) -> Iterator[Path]:
    """reasoning.md: every trace that a model gave, its ci, and what the checker says of it."""
    if not paths.replies.exists():
        return
    traces = [
        reply
        for reply in read_records(paths.replies, Reply)
        if reply.kind == "poem" and reply.reasoning and reply.cipai
    ]
    if not traces:
        return
    poems = {poem.poem_id: poem for poem in read_records(paths.generated, Poem)}
    checks = {check.poem_id: check for check in read_records(paths.ci_checks, CiCheck)}
    path = folder / "reasoning.md"
    with replacing(path) as file:
        file.write("# Reasoning and the ci it led to (CCiV, Figure 10)\n")
        for reply in traces:
            file.write(trace(reply, poems.get(reply.reply_id), checks.get(reply.reply_id)))
    yield path


def trace(reply: Reply, poem: Poem | None, check: CiCheck | None) -> str:
    """One section of Markdown; what a model wrote stands quoted, so that none of it is markup."""
    theme = poem.generation.theme if poem and poem.generation else None
    head = " · ".join(filter(None, (reply.generator, reply.prompt_id, reply.cipai, theme)))
    ci = quoted(poem.text) if poem else f"no ci: {reply.missing_reason}"
    parts = [
        f"\n## {head}",
        f"**Reasoning** ({len(reply.reasoning or '')} characters)",
        quoted(reply.reasoning or ""),
        "**Ci**",
        ci,
    ]
    if check:
        parts += ["**Checker**", verdict(check)]
    return "\n\n".join(parts) + "\n"


def quoted(text: str) -> str:
    """An indented block, which Markdown shows letter by letter."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def verdict(check: CiCheck) -> str:
    """What the checker says of a ci, in one line."""
    if check.unscored_reason:
        return f"unscored: {check.unscored_reason}"
    if check.variant_id:
        rhymes = "" if check.rhyme_share is None else f", rhymes {100 * check.rhyme_share:.0f} %"
        tone = 100 * (check.tonal_any_optional or 0)
        return f"keeps {check.variant_id}; tone {tone:.0f} %{rhymes}"
    also = f"; it is {check.elsewhere}" if check.elsewhere else ""
    if check.nearest is None:
        return f"keeps no form of {check.cipai}{also}"
    edits = "; ".join(check.nearest.edits)
    return f"keeps no form of {check.cipai}; nearest {check.nearest.variant_id}: {edits}{also}"

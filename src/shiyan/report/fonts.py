"""A font that shows Chinese, found when a figure is drawn."""

from dataclasses import dataclass, field
from functools import cache

SIMPLIFIED = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "SimHei",
)
OTHER_CJK = ("Noto Sans CJK JP", "Noto Serif CJK SC", "Source Han Serif SC", "Arial Unicode MS")
LATIN = "DejaVu Sans"
"""Comes with matplotlib; shows what the Chinese font lacks."""


@dataclass(frozen=True)
class Font:
    """What figures are set in.

    Attributes:
        chinese: the family that shows Chinese; None where none was found.
        origin: where it comes from: this system, a package, or nowhere.
    """

    chinese: str | None
    origin: str

    @property
    def families(self) -> list[str]:
        return [self.chinese, LATIN] if self.chinese else [LATIN]


@cache
def chosen_font() -> Font:
    """The system's own font for simplified Chinese, else the packaged one, else any CJK font."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    for family in SIMPLIFIED:
        if family in installed:
            return Font(family, "this system")
    try:
        from pylopdf_fonts_zh_cn import sans_path
    except ImportError:
        pass
    else:
        path = str(sans_path())
        font_manager.fontManager.addfont(path)
        family = font_manager.FontProperties(fname=path).get_name()
        return Font(family, "the package pylopdf-fonts-zh-cn")
    for family in OTHER_CJK:
        if family in installed:
            return Font(family, "this system")
    return Font(None, "nowhere")


@dataclass
class Labels:
    """Texts for a figure; without a Chinese font, names in it become #1, #2, …"""

    font: Font
    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        if self.font.chinese or text.isascii():
            return text
        return f"#{self.numbers.setdefault(text, len(self.numbers) + 1)}"

    @property
    def are_numbered(self) -> bool:
        return bool(self.numbers)

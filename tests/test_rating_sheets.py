"""Sheets for raters: blind, shuffled, and read back with every slip named."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from shiyan.cli import dispatch
from shiyan.commands import ratings as ratings_command
from shiyan.config import PathsParams, load_params
from shiyan.errors import UserError
from shiyan.jsonl import read_records, write_records
from shiyan.judging.rubric import POLLER
from shiyan.judging.sheets import ROW, blind_sheet, read_ratings
from shiyan.records import HumanRating, Poem, Understanding

ROOT = Path(__file__).parents[1]
POEMS = [
    Poem(poem_id=f"p{n}", title=f"题{n}", text=f"第{n}盏灯\n亮着", genre="ci", author=author)
    for n, author in enumerate(["甲", "乙", "甲", "甲"])
]
READINGS = [
    Understanding(item_id=f"u{n}", poem_id=f"p{n}", reader="隐名", text=f"=说灯{n}，“亮”")
    for n in range(4)
]
WRONG = READINGS[0].model_copy(update={"item_id": "c0", "source": "constructed"})


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    paths = load_params("paths", PathsParams)
    write_records(paths.poems, POEMS)
    write_records(paths.generated, [])
    write_records(paths.understandings, [*READINGS, WRONG])
    write_records(paths.collected_understandings, [])
    return tmp_path


def cells_of(path: Path) -> list[dict[str, str]]:
    text = path.read_bytes().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def fill(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", encoding="gbk", newline="") as file:
        # What a Chinese Excel saves.
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_the_sheet_tells_nothing_and_its_order_is_drawn():
    sheet = blind_sheet(READINGS, POEMS, POLLER, seed=1)
    shown = " ".join(cell for row in sheet.rows for cell in row)
    assert "隐名" not in shown
    assert not any(f"{kind}{n}" in shown for kind in "up" for n in range(4))
    orders = {
        tuple(r.item_id for r in blind_sheet(READINGS, POEMS, POLLER, seed).key)
        for seed in range(8)
    }
    assert len(orders) > 3
    assert blind_sheet(READINGS[::-1], POEMS, POLLER, seed=1) == sheet


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_export_fill_import(suffix, project, capsys):
    assert dispatch(["ratings", "export", f"sheet.{suffix}", "--author", "甲"]) == 0
    assert "3 readings to rate" in capsys.readouterr().out
    sheet = Path(f"sheet.{suffix}")
    if suffix == "csv":
        rows = cells_of(sheet)
        assert rows[0]["读者的理解"].startswith("'=说灯")
    else:
        from openpyxl import load_workbook

        page = load_workbook(sheet)["评分"]
        header, *values = page.iter_rows(values_only=True)
        rows = [dict(zip(header, (v or "" for v in row), strict=True)) for row in values]
        assert rows[0]["读者的理解"].startswith("=说灯")
    for row in rows[:2]:
        row |= dict.fromkeys(POLLER.names, "80") | {"内容": "８０", "备注": "好"}
    rows[1]["节奏"] = ""
    fill(Path("sheet.csv"), rows)
    key = f"sheet.{suffix}.key.jsonl"
    arguments = ["ratings", "import", "sheet.csv", "--key", key, "--rater", "某", "--json"]
    assert dispatch(arguments) == 1
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "rater": "某", "rated": 2, "rows": 3, "missing": {"2": ["节奏"]}, "untouched": ["3"]
    }  # fmt: skip
    ratings = list(read_records(Path("ratings.jsonl"), HumanRating))
    assert {r.item_id for r in ratings} <= {"u0", "u2", "u3"}
    assert ratings[0].scores == dict.fromkeys(POLLER.names, 80)
    assert ratings[1].scores["节奏"] is None
    with pytest.raises(UserError, match=r"2 of these readings by '某' already.*--replace"):
        dispatch(arguments)
    assert dispatch([*arguments, "--replace"]) == 1
    assert len(list(read_records(Path("ratings.jsonl"), HumanRating))) == 2


def test_two_raters_and_their_agreement(project, capsys):
    dispatch(["ratings", "export", "sheet.csv"])
    for rater, shift in (("a", 0), ("b", 10)):
        rows = cells_of(Path("sheet.csv"))
        for place, row in enumerate(rows):
            row |= {name: str(20 * place + shift) for name in POLLER.names}
        fill(Path(f"{rater}.csv"), rows)
        command = ["ratings", "import", f"{rater}.csv", "--rater", rater]
        assert dispatch([*command, "--key", "sheet.csv.key.jsonl"]) == 0
    capsys.readouterr()
    assert dispatch(["ratings", "show", "ratings.jsonl", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    # Units (0,10) (20,30) (40,50) (60,70): observed 100, expected by all pairs 1371.43 / ...
    values = [0, 10, 20, 30, 40, 50, 60, 70]
    expected = sum((x - y) ** 2 for x in values for y in values) / (8 * 7)
    assert rows[0]["value"] == pytest.approx(1 - 100 / expected)
    assert rows[0]["n"] == 4


def test_replacing_takes_cleared_rows_away_and_no_others(project, capsys):
    dispatch(["ratings", "export", "sheet.csv"])
    rows = [row | dict.fromkeys(POLLER.names, "80") for row in cells_of(Path("sheet.csv"))]
    fill(Path("sheet.csv"), rows)
    command = ["ratings", "import", "sheet.csv", "--rater", "a"]
    assert dispatch(command) == 0
    other = HumanRating(item_id="elsewhere", rater_id="a", rubric="poller", source="human",
                        scores={"内容": 70.0})  # fmt: skip
    theirs = other.model_copy(update={"item_id": "u0", "rater_id": "b"})
    before = list(read_records(Path("ratings.jsonl"), HumanRating))
    write_records(Path("ratings.jsonl"), [*before, other, theirs])
    cleared = rows[0] | dict.fromkeys(POLLER.names, "")
    fill(Path("sheet.csv"), [cleared, *rows[1:3]])
    assert dispatch([*command, "--replace"]) == 1
    kept = [(r.item_id, r.rater_id) for r in read_records(Path("ratings.jsonl"), HumanRating)]
    # A row that was taken out of the sheet stays as well.
    assert kept[1:3] == [("elsewhere", "a"), ("u0", "b")], "what the sheet does not show stays"
    assert len(kept) == 1 + 2 + 2


@pytest.mark.parametrize("more", [[], ["--replace"]])
def test_an_import_holds_the_file_from_reading_to_writing(project, monkeypatch, more):
    """Two at once would each write what it has read, and one rater would be lost."""
    dispatch(["ratings", "export", "sheet.csv"])
    rows = [row | dict.fromkeys(POLLER.names, "80") for row in cells_of(Path("sheet.csv"))]
    fill(Path("sheet.csv"), rows)
    earlier, written = ratings_command._earlier, []

    def read(*arguments):
        with pytest.raises(Timeout):
            FileLock(".ratings.jsonl.lock").acquire(timeout=0)
        return earlier(*arguments)

    def write(path, records):
        with pytest.raises(Timeout):
            FileLock(".ratings.jsonl.lock").acquire(timeout=0)
        written.append(path)

    monkeypatch.setattr(ratings_command, "_earlier", read)
    monkeypatch.setattr(ratings_command, "write_records", write)
    assert dispatch(["ratings", "import", "sheet.csv", "--rater", "a", *more]) == 0
    assert written == [Path("ratings.jsonl")]
    FileLock(".ratings.jsonl.lock").acquire(timeout=0)


def test_progress_of_each_rater_is_shown(project, capsys):
    dispatch(["ratings", "export", "sheet.csv"])
    for rater, n in (("乙", 4), ("甲", 2)):
        rows = cells_of(Path("sheet.csv"))
        for row in rows[:n]:
            row |= dict.fromkeys(POLLER.names, "80")
        rows[1]["节奏"] = ""
        fill(Path(f"{rater}.csv"), rows)
        dispatch(["ratings", "import", f"{rater}.csv", "--rater", rater,
                  "--key", "sheet.csv.key.jsonl"])  # fmt: skip
    capsys.readouterr()
    dispatch(["ratings", "show", "ratings.jsonl"])
    shown = capsys.readouterr().out.splitlines()
    assert shown[-2:] == [
        "乙: 4 of 4 readings rated, 1 of them in part",
        "甲: 2 of 4 readings rated, 1 of them in part",
    ]
    dispatch(["ratings", "show", "ratings.jsonl", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[-1] == {"rater": "甲", "rated": 2, "partly": 1, "readings": 4}
    assert [row["dimension"] for row in rows[:-2]] == list(POLLER.names)


KEY = {"1": READINGS[0], "2": READINGS[1].model_copy(update={"dimension": "节奏"})}
FULL = dict.fromkeys(POLLER.names, "80")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{ROW: "9"} | FULL], "s:2: there is no row '9' in the key, which has 2 rows"),
        ([{ROW: "1"} | FULL | {"语言": "101"}], "s:2: 语言 is '101'; allowed is a number from 0"),
        ([{ROW: "1"} | FULL | {"语言": "高"}], "语言 is '高'"),
        ([{ROW: "1"} | FULL | {"语言": "80-90"}], "语言 is '80-90'"),
        ([{ROW: "1"} | FULL, {ROW: "1"} | FULL], "s:3: row 1 stands at s:2 already"),
        ([{ROW: "1"}], "the column 内容 is missing"),
    ],
)  # fmt: skip
def test_slips_on_a_sheet_are_named(rows, message):
    placed = [(f"s:{number}", row) for number, row in enumerate(rows, start=2)]
    with pytest.raises(UserError, match=message):
        read_ratings(placed, KEY, "a", POLLER)


def test_a_reading_of_one_dimension_is_rated_on_it_alone():
    ratings, progress = read_ratings([("s:2", {ROW: "2.0"} | FULL)], KEY, "a", POLLER)
    assert ratings[0].scores == {"节奏": 80}
    assert progress.untouched == ("1",)
    row = next(r for r in blind_sheet(KEY.values(), POEMS, POLLER, 0).rows if r[1] == "题1")
    assert row[4:12].count("—") == 7


def test_a_filled_sheet_is_never_written_over(project):
    export = ["ratings", "export", "sheet.csv"]
    dispatch(export)
    before = Path("sheet.csv").read_bytes()
    with pytest.raises(UserError, match=r"^sheet\.csv exists already.*name another"):
        dispatch([*export, "--seed", "2"])
    assert Path("sheet.csv").read_bytes() == before
    Path("sheet.csv").unlink()
    with pytest.raises(UserError, match=r"^sheet\.csv\.key\.jsonl exists already"):
        dispatch(export)


def test_a_sheet_is_refused_with_the_key_of_another_export(project):
    for seed in ("1", "2"):
        dispatch(["ratings", "export", f"{seed}.csv", "--seed", seed])
    rows = [row | dict.fromkeys(POLLER.names, "80") for row in cells_of(Path("1.csv"))]
    fill(Path("1.csv"), rows)
    command = ["ratings", "import", "1.csv", "--rater", "a", "--key"]
    with pytest.raises(UserError, match=r"1\.csv:\d+, row \d: \S+ of row \d is not the one of 'u"):
        dispatch([*command, "2.csv.key.jsonl"])
    assert not Path("ratings.jsonl").exists()
    assert dispatch([*command, "1.csv.key.jsonl"]) == 0


def test_a_workbook_goes_without_control_characters_and_says_so(project, capsys):
    paths = load_params("paths", PathsParams)
    odd = READINGS[0].model_copy(update={"text": "说\x0b灯"})
    write_records(paths.understandings, [odd, READINGS[1]])
    assert dispatch(["ratings", "export", "sheet.xlsx"]) == 0
    assert "1 cell(s) lost control characters" in capsys.readouterr().err
    # An untouched sheet is read back: the key still fits.
    assert dispatch(["ratings", "import", "sheet.xlsx", "--rater", "a"]) == 1


def test_a_rater_has_a_name_without_blanks_around_it(project):
    dispatch(["ratings", "export", "sheet.csv"])
    rows = [row | dict.fromkeys(POLLER.names, "80") for row in cells_of(Path("sheet.csv"))]
    fill(Path("sheet.csv"), rows)
    with pytest.raises(UserError, match="--rater is empty"):
        dispatch(["ratings", "import", "sheet.csv", "--rater", " "])
    dispatch(["ratings", "import", "sheet.csv", "--rater", " a "])
    assert {r.rater_id for r in read_records(Path("ratings.jsonl"), HumanRating)} == {"a"}


def test_an_unknown_author_is_told_the_known_ones(project):
    with pytest.raises(UserError, match=r"no reading of a poem by '无此人'.*乙、甲"):
        dispatch(["ratings", "export", "sheet.csv", "--author", "无此人"])


def test_another_suffix_is_refused(project):
    with pytest.raises(UserError, match=r"neither \.csv nor \.xlsx"):
        dispatch(["ratings", "export", "sheet.txt"])

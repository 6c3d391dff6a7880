"""The command `shiyan check-ci`, as a person and as a script meets it."""

import json

import pytest
from ci_fakes import HUANXISHA, RUMENGLING

from shiyan.cli import dispatch
from shiyan.errors import UserError


@pytest.fixture
def poem(tmp_path):
    def write(text: str, name: str = "poem.txt") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def check(capsys, *arguments: str) -> tuple[int, str, str]:
    code = dispatch(["check-ci", *arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_good_ci_is_shown_line_by_line(capsys, poem):
    code, out, _ = check(capsys, poem(f"浣溪沙·晚晴\n\n{HUANXISHA}"))
    assert code == 0
    assert "浣溪沙/钦1, the standard form, 42 characters" in out
    assert "29/29 where 平 or 仄 is wanted" in out
    assert "甲 残栏寒还山: part 7" in out
    assert "  1  野 渡 无 人 落 日 残  韵甲" in out
    assert "入" in out
    assert "孤平" not in out
    assert "\x1b" not in out


def test_what_breaks_is_marked_and_told(capsys, poem):
    short = HUANXISHA.replace("还共雁", "共雁").replace("隔千山", "隔千水")
    _, out, _ = check(capsys, poem(short), "--cipai", "浣溪沙")
    assert "line 5 has 6 characters, 7 wanted" in out
    assert "6 of 7 characters" in out
    assert "仄!" in out
    assert "韵甲!" in out
    assert "broken" in out


def test_colour_in_a_terminal_unless_no_color_is_set(capsys, poem, monkeypatch):
    path = poem(HUANXISHA)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in check(capsys, path)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in check(capsys, path)[1]


def test_json_of_one_poem_has_both_tone_figures_lines_and_rhymes(capsys, poem):
    code, out, _ = check(capsys, poem(RUMENGLING, "rain.txt"), "--cipai", "如梦令", "--json")
    told = json.loads(out)
    assert (code, told["id"], told["cipai"]) == (0, "rain", "如梦令")
    assert (told["n_fixed_fit"], told["n_fixed"]) == (18, 18)
    assert told["n_definite"] <= 18
    assert told["lines"][0]["text"] == "昨夜小园新雨"
    assert told["lines"][0]["wanted"] == "中仄中平中仄"
    assert told["rhymes"][0]["part"] == 4


def test_a_jsonl_gives_a_jsonl_of_checks(capsys, poem):
    rows = [
        {"id": 1, "cipai": "如梦令", "text": RUMENGLING, "note": "x"},
        {"poem_id": "b", "cipai": "浣溪沙", "text": HUANXISHA[1:]},
        {"id": "c", "text": HUANXISHA},
    ]
    path = poem("".join(json.dumps(row) + "\n" for row in rows), "mine.jsonl")
    code, out, err = check(capsys, path)
    checks = [json.loads(line) for line in out.splitlines()]
    assert [c["id"] for c in checks] == ["1", "b", "c"]
    assert [c["structure_standard"] for c in checks] == [True, False, True]
    assert checks[1]["nearest"]["edits"] == ["line 1 has 6 characters, 7 wanted"]
    assert checks[2]["cipai"] == "浣溪沙"
    assert code == 0
    assert "not used: note" in err


def test_an_unscored_row_is_null_counted_and_exits_1(capsys, poem):
    path = poem(json.dumps({"id": "a", "cipai": "无此调", "text": RUMENGLING}), "mine.jsonl")
    code, out, err = check(capsys, path)
    told = json.loads(out)
    assert code == 1
    assert told["structure_any"] is None
    assert "无此调" in told["unscored_reason"]
    assert "1 unscored" in err


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ('{"cipai": "如梦令", "text": "山"}', r":1 has no id"),
        ('{"id": 1}', r":1 has no text"),
        ('{"id": 1, "text": "山"}\n{"id": "1", "text": "水"}', r":2 has the id '1' of line 1"),
        ("{", r":1 is not valid JSON"),
        ("", r" holds no row; a row is"),
        ("\n\n", r" holds no row; a row is"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(poem, rows, complaint):
    with pytest.raises(UserError, match=rf"mine\.jsonl{complaint}"):
        dispatch(["check-ci", poem(rows, "mine.jsonl")])


def test_a_file_that_is_not_there_or_in_no_encoding_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        dispatch(["check-ci", str(tmp_path / "none.txt")])
    (tmp_path / "odd.txt").write_bytes(b"\xff\x80\x81")
    with pytest.raises(UserError, match=r"odd\.txt is not UTF-8 \(byte 1\)"):
        dispatch(["check-ci", str(tmp_path / "odd.txt")])


def test_a_file_in_gbk_is_read_and_named(capsys, tmp_path):
    path = tmp_path / "gbk.txt"
    path.write_bytes(HUANXISHA.encode("gbk"))
    code, out, err = check(capsys, str(path))
    assert code == 0
    assert "浣溪沙/钦1, the standard form" in out
    assert err == f"{path} was read as GB18030\n"
    rows = tmp_path / "gbk.jsonl"
    row = {"id": "a", "cipai": "浣溪沙", "text": HUANXISHA}
    rows.write_bytes(json.dumps(row, ensure_ascii=False).encode("gbk"))
    code, out, err = check(capsys, str(rows))
    assert (code, json.loads(out)["structure_standard"]) == (0, True)
    assert err == f"{rows} was read as GB18030\n"


def test_a_table_is_refused(poem):
    with pytest.raises(UserError, match=r"poems\.csv is not the text of one"):
        dispatch(["check-ci", poem(f"id,text\n1,{HUANXISHA}", "poems.csv")])


def test_an_empty_cipai_of_a_row_is_found_as_a_missing_one_is(capsys, poem):
    path = poem(json.dumps({"id": "a", "cipai": "", "text": RUMENGLING}), "mine.jsonl")
    code, out, _ = check(capsys, path)
    assert (code, json.loads(out)["cipai"]) == (0, "如梦令")


def test_a_text_too_long_to_read_or_to_compare_has_a_verdict(capsys, poem):
    code, out, _ = check(capsys, poem("山水风云。" * 4001), "--cipai", "浣溪沙")
    assert (code, "not scored: 20005 characters are too many" in out) == (1, True)
    code, out, _ = check(capsys, poem("山水风云。" * 400), "--cipai", "浣溪沙")
    assert (code, "broken: 0 by the paper's rule" in out) == (0, True)


def test_an_unknown_cipai_is_refused_before_any_work(poem):
    with pytest.raises(UserError, match="无此调"):
        dispatch(["check-ci", poem(RUMENGLING), "--cipai", "无此调"])


def test_a_cipai_of_ones_own(capsys, poem):
    forms = poem("词牌 新腔\n我1 平平仄，中仄仄平平。\n", "forms.txt")
    _, out, _ = check(capsys, poem("山风月，山月雨春花。"), "--forms", forms, "--cipai", "新腔")
    assert "新腔/我1" in out

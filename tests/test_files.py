"""A user's own poems, in every dress: kept, counted or refused with the place."""

import json
from pathlib import Path

import pytest
from openpyxl import Workbook
from sections import option
from shared import BUGS, SHARED, needs_shared

from shiyan import poem
from shiyan.ci.form import load_catalogue
from shiyan.collection import files
from shiyan.collection.files import read_user_poems
from shiyan.config import FilesParams
from shiyan.errors import UserError


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def jsonl(path: Path, *rows: dict | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    return write(path, "\n".join(lines))


def collect(path: Path, genre: str = "modern"):
    return files.collect(option(FilesParams, "corpus/files", path=str(path), genre=genre))


def test_jsonl_takes_either_id_and_ignores_what_it_does_not_know(tmp_path):
    path = jsonl(
        tmp_path / "a.jsonl",
        {"id": "007", "title": "灯", "text": "亮着\r\n\u3000\r\n又灭了", "author": "甲", "mood": 1},
        {"poem_id": 7, "text": ["亮着", "又灭了"], "mood": 2},
    )
    read = read_user_poems(path, "modern")
    assert [p.poem_id for p in read.poems] == ["007", "7"]
    assert [p.text for p in read.poems] == ["亮着\n\n又灭了", "亮着\n又灭了"]
    assert read.poems[0].author == "甲"
    (notice,) = read.notices  # once for both rows
    assert notice.endswith("ignored the field mood")


def test_a_poem_without_an_id_is_named_for_its_place(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", {"text": "亮着"}, {"id": "", "text": "灭了"})
    read = read_user_poems(path, "modern")
    assert [p.poem_id for p in read.poems] == ["a-00001", "a-00002"]
    assert read.notices[0].startswith("2 poems have no id")


def test_both_kinds_of_id_in_one_file_are_one_field(tmp_path):
    path = jsonl(
        tmp_path / "a.jsonl", {"poem_id": "x", "text": "亮"}, {"poem_id": "y", "text": "灭"}
    )
    assert [p.poem_id for p in read_user_poems(path, "modern").poems] == ["x", "y"]


def test_what_is_no_verse_is_kept_beside_it(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", {"id": "a", "text": "一\n亮着\n\n二\n灭了\n\n2001.5.3"})
    (found,) = read_user_poems(path, "modern").poems
    assert found.text == "亮着\n\n灭了"
    assert found.beside == {"section": ("一", "二"), "date": ("2001.5.3",)}


def test_bad_lines_are_left_out_counted_and_named(tmp_path, capsys):
    path = write(
        tmp_path / "a.jsonl",
        '{"id":"a","text":"雨停了"}\n'.encode()
        + b'{"id":"b","text":"\xb5\xc6\xbb\xb9"}\n'
        + b'{"id":"c", oops}\n[1]\n'
        + b'{"id":"d","text":""}\n{"id":"e","text":{"x":1}}\n'
        + b'{"id":"f","text":"\\ud83d"}\n'
        + '{"id":"g","text":"人走了"}'.encode(),
    )
    corpus = collect(path)
    assert [p.poem_id for p in corpus.poems] == ["a", "g"]
    assert corpus.left_out.total() == 6
    assert (corpus.left_out["not UTF-8"], corpus.left_out["no text"]) == (1, 1)
    said = capsys.readouterr().err
    for number in (2, 3, 4, 5, 6, 7):
        assert f"{path}:{number}" in said
    assert said.count("\n") == 6


def test_peculiar_poems_are_kept_and_counted(tmp_path):
    path = jsonl(
        tmp_path / "a.jsonl",
        {"id": "a", "title": "一", "author": "甲", "text": "燈還亮著，沒有人"},
        {"id": "b", "title": "二", "author": "甲", "text": "网"},
        {"id": "c", "title": "三", "author": "甲", "text": "rain"},
        {"id": "d", "text": "雨\ufffd停了"},
        {"id": "e", "title": "五", "author": "甲", "text": "一扇门和它的乾净，雨停了没有人来"},
    )
    corpus = collect(path)
    assert len(corpus.poems) == 5
    assert corpus.poems[0].text == "燈還亮著，沒有人"  # as it was written
    assert corpus.flagged == {
        "in traditional characters": 1,
        "a few traditional characters": 1,
        "one character": 1,
        "no Han character": 1,
        "lost character (U+FFFD)": 1,
        "no title": 1,
        "no author": 1,
    }


def test_an_llms_poem_is_no_human_one(tmp_path):
    path = jsonl(
        tmp_path / "a.jsonl",
        {"poem_id": "a", "text": "雨停了", "generation": None},
        {"poem_id": "b", "text": "雪停了", "generation": {"generator": "m"}},
    )
    corpus = collect(path)
    assert [p.poem_id for p in corpus.poems] == ["a"]
    assert corpus.left_out == {files.BY_LLM: 1}
    assert len(read_user_poems(path, "modern").poems) == 2  # to be scored like any other


def test_a_file_in_gb18030_is_read_and_named(tmp_path):
    row = '{"id":"a","text":"灯还亮着，没有人来关"}\n'
    corpus = collect(write(tmp_path / "a.jsonl", row.encode("gb18030")))
    assert corpus.poems[0].text == "灯还亮着，没有人来关"
    assert corpus.flagged["read as GB18030"] == 1
    assert corpus.notices[0].endswith("a.jsonl was read as GB18030")


def test_a_sheet_in_gbk_full_of_full_width_digits_is_read(tmp_path):
    rows = "".join(f'７{n},１９３６－０{n}－２８,"亮着，\n又灭了"\n' for n in "１２３４５６")
    corpus = collect(write(tmp_path / "a.csv", ("id,date,text\n" + rows).encode("gbk")))
    assert [p.poem_id for p in corpus.poems] == [f"７{n}" for n in "１２３４５６"]
    assert {(p.text, p.date[:4]) for p in corpus.poems} == {("亮着，\n又灭了", "１９３６")}
    assert {poem.year_of(p.date) for p in corpus.poems} == {1936}
    assert corpus.notices[0].endswith("a.csv was read as GB18030")


def test_an_id_that_stands_twice_is_an_error_with_both_places(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", {"id": "a", "text": "雨"}, "", {"id": "a", "text": "雪"})
    with pytest.raises(UserError, match=r"'a' stands twice, at \S+:1 and at \S+:3"):
        read_user_poems(path, "modern")


def test_a_sheet_by_names_of_its_own(tmp_path):
    path = write(tmp_path / "a.csv", "No,诗稿\n1,亮着\n2,\n")
    with pytest.raises(UserError, match="it has No, 诗稿"):
        read_user_poems(path, "modern")
    read = read_user_poems(path, "modern", {"text": "诗稿", "poem_id": "No"})
    assert [(r.poem.poem_id, r.poem.text, r.problem) for r in read.rows] == (
        [("1", "亮着", None), ("2", "", "no text")]
    )
    assert read.rows[1].said == f"{path}:3, row 2 (id 2): no text"
    with pytest.raises(UserError, match="no column '正文'"):
        read_user_poems(path, "modern", {"text": "正文"})
    with pytest.raises(UserError, match="no field 'verse'; allowed are poem_id, text"):
        read_user_poems(path, "modern", {"verse": "诗稿"})


def test_shifted_cells_are_no_poem(tmp_path):
    read = read_user_poems(write(tmp_path / "a.csv", "id,text\n1,亮着,灭了\n"), "modern")
    assert read.poems == []
    assert "3 cells where the header names 2" in read.rows[0].said


def test_a_folder_of_txt_and_pt(tmp_path):
    write(tmp_path / "甲_jia" / "灯.txt", "灯\n\n亮着\n又灭了")
    write(tmp_path / "甲_jia" / "无题.pt", "title:\ndate:1999年05\n\n亮着")
    write(tmp_path / "乙_yi" / "无题.pt", "title:无题\ndate:311\ntitle:行")
    write(tmp_path / "门.TXT", "门\n开着")
    write(tmp_path / "只有题.txt", "只有题")
    write(tmp_path / "坏.txt", b"\xff\xff\xff")
    write(tmp_path / "空.txt", "")
    write(tmp_path / ".hidden.txt", "x")
    write(tmp_path / "notes.docx", "x")
    read = read_user_poems(tmp_path, "modern")
    kept = {p.poem_id: p for p in read.poems}
    assert set(kept) == {"甲_jia/灯.txt", "甲_jia/无题.pt", "乙_yi/无题.pt", "门.TXT"}
    assert kept["甲_jia/灯.txt"].title == "灯"
    assert kept["甲_jia/无题.pt"].author == "甲"
    assert poem.year_of(kept["甲_jia/无题.pt"].date) == 1999
    assert (kept["乙_yi/无题.pt"].date, kept["乙_yi/无题.pt"].text) == ("311", "title:行")
    assert kept["门.TXT"].author == ""
    assert {r.problem for r in read.rows if r.problem} == {"no text", "not UTF-8"}
    assert any("1 of .docx" in notice for notice in read.notices)


def test_a_ci_needs_its_cipai_in_a_corpus(tmp_path):
    path = jsonl(
        tmp_path / "a.jsonl",
        {"id": "a", "text": "雨", "cipai": "如梦令"},
        {"id": "b", "text": "雪", "cipai": ""},
    )
    corpus = collect(path, "ci")
    assert [(p.poem_id, p.cipai) for p in corpus.poems] == [("a", "如梦令")]
    assert corpus.left_out == {"no cipai": 1}
    assert [p.cipai for p in read_user_poems(path, "ci").poems] == ["如梦令", None]
    assert [p.cipai for p in read_user_poems(path, "modern").poems] == [None, None]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("absent.jsonl", None, "does not exist; give .jsonl, .csv"),
        ("a.docx", "x", "of a kind that is not read"),
        ("a.jsonl", "", "holds no poem that can be used"),
        ("a.jsonl", '{"id":"a","text":" "}', "of 1 the first is: .*a.jsonl:1: no text"),
        ("a.json", '[\n{"id":"a"}]', "is a JSON array"),
        ("a.jsonl", '{"id":"a","verse":"雨"}', "no column with the poems .* it has id, verse"),
        ("a.csv", "", "is empty"),
        ("a.txt", "", "holds no poem that can be used"),
        ("a.txt", "只有题", "no text"),
        ("folder/x.docx", "x", "no .txt and no .pt file"),
    ],
)
def test_nothing_to_use_is_one_sentence(tmp_path, name, content, said):
    path = tmp_path / name
    if content is not None:
        write(path, content)
    with pytest.raises(UserError, match=said) as caught:
        collect(path.parent if name.startswith("folder/") else path)
    assert "\n" not in str(caught.value)


def test_a_poem_of_ten_thousand_lines_is_read(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", {"id": "a", "text": "\n".join(["雨停了"] * 10_000)})
    (found,) = read_user_poems(path, "modern").poems
    assert poem.counts("", found.text).lines == 10_000


def test_a_broken_utf8_name_of_a_file_is_still_an_id(tmp_path):
    name = b"\xb5\xc6.txt".decode("utf-8", "surrogateescape")
    try:
        write(tmp_path / name, "灯\n亮着")
    except OSError:
        pytest.skip("this file system wants UTF-8 names")
    (found,) = read_user_poems(tmp_path, "modern").poems
    assert found.poem_id == "\\xb5\\xc6.txt"


# --- reported trouble, in lines of our own ------------------------------------------------

ENCODED = "渡口\n\n𫛛在对岸叫了一声\n船家把绳子解开\n\n河面上只剩下月亮"


def test_a_link_out_of_the_folder_is_no_poem(tmp_path, capsys):
    write(tmp_path / "poems/a.txt", "井\n\n水低下去\n桶还在上面")
    write(tmp_path / "elsewhere.txt", "别处\n\n不该读到的一行\n另一行")
    (tmp_path / "poems/b.txt").symlink_to(tmp_path / "elsewhere.txt")
    (tmp_path / "poems/c.txt").symlink_to(tmp_path / "poems/a.txt")
    found = collect(tmp_path / "poems")
    assert {poem.poem_id for poem in found.poems} == {"a.txt", "c.txt"}
    assert found.left_out == {"a link out of the folder": 1}
    assert "copy the poem itself" in capsys.readouterr().err


def test_a_folder_of_files_in_four_encodings(tmp_path):
    plain = ENCODED.replace("𫛛", "鳥").replace("船家把绳子解开", "船家把繩子解開")
    plain = plain.replace("对", "對").replace("声", "聲")
    both = "联通\n\n移动"  # its bytes in UTF-8 are valid in GBK too
    assert both.encode().decode("gbk", "replace") != both
    write(tmp_path / "big5.txt", plain.encode("big5"))
    write(tmp_path / "gb18030.txt", ENCODED.encode("gb18030"))
    write(tmp_path / "utf8.txt", ENCODED)
    write(tmp_path / "both.txt", both)
    by_id = {r.poem.poem_id: r for r in read_user_poems(tmp_path, "modern").rows}
    assert {name: row.encoding for name, row in by_id.items()} == {
        "big5.txt": "Big5",
        "gb18030.txt": "GB18030",
        "utf8.txt": "UTF-8",
        "both.txt": "UTF-8",
    }
    assert by_id["gb18030.txt"].poem.text == by_id["utf8.txt"].poem.text
    assert "𫛛" in poem.characters(by_id["gb18030.txt"].poem.text)
    assert by_id["big5.txt"].poem.text == plain.partition("\n\n")[2]


def test_titles_and_dates_of_pt_files_that_look_like_something_else(tmp_path):
    written = {
        "子_zi/夜.pt": "title:夜里2:40的水管\ndate:2001｜2003\n\n它咳了两下\n又忍住",
        "子_zi/早.pt": "title:早集\ndate:1987年11\n\n鱼还张着嘴\n\n秤先低了头",
        "丑_chou/空.pt": "title:\ndate:\n\n桌上有半碗凉水\n没有人",
        "丑_chou/表.pt": "title:登记\ndate:0071203\n\ntitle:这里也是诗\n我填了名字\ndate:空着",
        "丑_chou/信.pt": "title:信\ndate:274\n纸脆了\n字还站着",
    }
    for name, content in written.items():
        write(tmp_path / name, content)
    kept = {p.poem_id: p for p in read_user_poems(tmp_path, "modern").poems}
    assert {name: p.title for name, p in kept.items()} == {
        "子_zi/夜.pt": "夜里2:40的水管",
        "子_zi/早.pt": "早集",
        "丑_chou/空.pt": "",
        "丑_chou/表.pt": "登记",
        "丑_chou/信.pt": "信",
    }
    assert {p.date for p in kept.values()} == {"2001｜2003", "1987年11", "0071203", "274", None}
    assert {poem.year_of(p.date) for p in kept.values()} == {1987, None}
    assert poem.counts("", kept["丑_chou/表.pt"].text).lines == 3
    assert poem.counts("", kept["丑_chou/信.pt"].text).lines == 2


@pytest.mark.parametrize("separator", [",", ";"])
def test_poems_in_the_cells_of_a_sheet(tmp_path, separator):
    rows = [
        ["编号", "标题", "正文", "备注"],
        ["1", "盐", '"他说""盐比水老""\n水没有回答\n\n罐子空着"', ""],
        ["2", f'"门{separator}槛"', '"进来\n出去"', "改过"],
        ["3", "白", "", "没有正文"],
        ["4", "账", '"=今日\n-三文\n+一碗面"', ""],
    ]
    text = "\ufeff" + "\r\n".join(separator.join(row) for row in rows)
    read = read_user_poems(write(tmp_path / "a.csv", text), "modern")
    assert [r.problem for r in read.rows] == [None, None, "no text", None]
    assert "row 3 (id 3): no text" in read.rows[2].said
    first = read.rows[0].poem.text
    counts = poem.counts("", first)
    assert (counts.stanzas, counts.lines, first.count('"')) == (2, 3, 2)
    assert read.rows[1].poem.title == f"门{separator}槛"
    assert [line[0] for line in read.rows[3].poem.text.split("\n")] == ["=", "-", "+"]


def test_numbers_dates_and_na_stay_strings(tmp_path):
    text = "id,title,text\n003,NA,雨\n2e7,null,NaN\n2020-01-02,5-12,无\nNA,2046,门\n8,TRUE,\n"
    rows = read_user_poems(write(tmp_path / "a.csv", text), "modern").rows
    assert [(r.poem.poem_id, r.poem.title, r.poem.text) for r in rows] == [
        ("003", "NA", "雨"),
        ("2e7", "null", "NaN"),
        ("2020-01-02", "5-12", "无"),
        ("NA", "2046", "门"),
        ("8", "TRUE", ""),
    ]
    assert [r.problem for r in rows] == [None] * 4 + ["no text"]


@pytest.mark.parametrize("name", ["a.xlsx", "renamed.csv", "exported.csv"])
def test_a_workbook_whatever_it_is_called(tmp_path, name):
    text = "灯把墙照旧了_x000D_\n又照新_x000D_\n_x000D_\n墙不说话"
    if name == "exported.csv":
        write(tmp_path / name, f'id,text\n1,"{text}"\n')
    else:
        book = Workbook()
        book.active.append(["id", "text"])
        book.active.append(["1", text])
        book.save(tmp_path / "book.xlsx")
        (tmp_path / "book.xlsx").rename(tmp_path / name)
    (found,) = read_user_poems(tmp_path / name, "modern").poems
    assert found.text == "灯把墙照旧了\n又照新\n\n墙不说话"


# --- the cases of ../shared ---------------------------------------------------------------


@needs_shared
def test_bug_02_each_encoding_and_the_whole_folder():
    folder = BUGS / "02-gb18030-big5-utf8"
    by_id = {r.poem.poem_id: r for r in read_user_poems(folder, "modern").rows}
    assert by_id["gb18030.txt"].poem.text == by_id["utf8.txt"].poem.text
    assert by_id["gb18030.txt"].encoding == "GB18030"
    assert by_id["big5.txt"].encoding == "Big5"
    assert by_id["utf8_also_valid_gbk.txt"].encoding == "UTF-8"
    assert "𫛛" in poem.characters(by_id["gb18030.txt"].poem.text)
    rows = read_user_poems(folder / "mixed.jsonl", "modern").rows
    assert [r.problem for r in rows] == [None, "not UTF-8", None]
    assert "mixed.jsonl:2 " in rows[1].said


@needs_shared
def test_bug_03_headers_of_pt_files():
    kept = {p.poem_id: p for p in read_user_poems(BUGS / "03-pt-headers" / "pt", "modern").poems}
    assert {p.title for p in kept.values()} == {"早班车", "凌晨1:13的冰箱", "", "无题", "旧信"}
    assert {poem.year_of(p.date) for p in kept.values()} == {1999, None}
    assert {p.date for p in kept.values()} == {"1999年05", "2012｜2013", "0090715", "311", None}
    assert poem.counts("", kept["乙_yi/无题.pt"].text).lines == 3
    assert poem.counts("", kept["乙_yi/旧信.pt"].text).lines == 2


@needs_shared
@pytest.mark.parametrize("name", ["sheet.csv", "sheet_semicolon.csv"])
def test_bug_07_poems_in_cells(name):
    read = read_user_poems(BUGS / "07-csv-poems-in-cells" / name, "modern")
    assert [r.problem for r in read.rows] == [None, None, "no text", None]
    assert "row 3 (id 3): no text" in read.rows[2].said
    first = poem.counts("", read.rows[0].poem.text)
    assert (first.stanzas, first.lines) == (2, 3)
    assert read.rows[0].poem.text.count('"') == 2
    assert [line[0] for line in read.rows[3].poem.text.split("\n")] == ["=", "-", "+"]


@needs_shared
def test_bug_08_everything_stays_a_string():
    rows = read_user_poems(BUGS / "08-csv-na-1984" / "titles.csv", "modern").rows
    ids = ["007", "1e5", "2024-03-14", "NA", "5", "6", "7"]
    assert [r.poem.poem_id for r in rows] == ids
    assert [r.poem.title for r in rows][:5] == ["NA", "null", "3-14", "1984", "TRUE"]
    assert [r.poem.text for r in rows][4:] == ["无", "NaN", ""]
    assert [r.problem for r in rows] == [None] * 6 + ["no text"]


@needs_shared
@pytest.mark.parametrize("name", ["exported.csv", "renamed.csv", "submissions.xlsx"])
def test_bug_09_a_workbook_however_it_is_called(name):
    (found,) = read_user_poems(BUGS / "09-xlsx-x000d" / name, "modern").poems
    counts = poem.counts("", found.text)
    assert (counts.stanzas, counts.lines) == (2, 3)
    assert "x000" not in found.text


@needs_shared
def test_the_public_domain_poems_are_all_kept():
    corpus = collect(SHARED / "data" / "modern_pd.jsonl")
    assert len(corpus.poems) == 443
    assert not corpus.left_out


def test_a_ci_without_a_cipai_has_it_from_its_title(tmp_path):
    write(tmp_path / "a.txt", "浣溪沙\n\n野渡无人落日残。")
    write(tmp_path / "b.txt", "浣溪沙·晚晴\n\n野渡无人落日残。")
    write(tmp_path / "c.txt", "金縷曲（夜渡）\n\n野渡无人落日残。")
    write(tmp_path / "d.txt", "晚晴\n\n野渡无人落日残。")
    params = option(FilesParams, "corpus/files", path=str(tmp_path), genre="ci")
    corpus = files.collect(params, load_catalogue().named_in)
    assert [(p.cipai, p.title) for p in corpus.poems] == [
        ("浣溪沙", "浣溪沙"),
        ("浣溪沙", "晚晴"),
        ("金缕曲", "夜渡"),
    ]
    assert corpus.left_out == {files.NO_CIPAI: 1}
    assert "3 ci have their cipai from their title" in corpus.notices


def test_a_traditional_name_of_a_tune_is_collected_as_the_simplified_one(tmp_path):
    rows = [{"id": n, "cipai": n, "title": "灯", "text": "亮着"} for n in ("金縷曲", "無此調")]
    read = read_user_poems(
        jsonl(tmp_path / "a.jsonl", *rows), "ci", tune_of=load_catalogue().named_in
    )
    assert [(p.cipai, p.title) for p in read.poems] == [("金缕曲", "灯"), ("無此調", "灯")]

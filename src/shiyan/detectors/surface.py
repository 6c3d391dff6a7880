"""Detectors without a language model: what length, layout and characters alone give away.

They are the measure of every other detector: where a count of lines finds as many
LLM poems as a network does, the network has shown nothing about poetry. The
classifiers are scikit-learn's; scores are log-odds (logistic regression), the
distance from the plane (SVM) or the share of trees (forest), an LLM's being higher.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal, Self

import numpy as np

from shiyan.config import ControlName, NGramParams
from shiyan.detectors.crossfit import Corpus, Learner, Rows, Scorer, UnlearntError
from shiyan.jsonl import replacing
from shiyan.metrics import Floats
from shiyan.poem import characters, is_punctuation, lines, stanzas

SurfaceName = Literal["char_ngrams"] | ControlName
LINEAR: tuple[SurfaceName, ...] = (
    "char_ngrams",
    "char_ngrams_svm",
    "typography_only",
    "han_only",
)
BORDERS: dict[SurfaceName, float] = {"char_ngrams_forest": 0.5}
"""Raw score from which on a detector itself says LLM; 0 of all others."""

MIN_DOCUMENTS = 2
"""An n-gram that only one train poem holds cannot be told from chance."""
ANY_CHARACTER = "字"
"""Stands for every character where only typography is read."""
TREES = 200
FORMULAS = 2
"""Raised where a score of these detectors changes, so that kept ones are not taken for new."""

LAYOUT = (
    "lines",
    "stanzas",
    "mean characters a line",
    "deviation of characters a line",
    "longest line",
    "shortest line",
    "share of punctuation",
    "share of lines that end in punctuation",
    "share of lines with a blank inside",
)


def length(text: str) -> list[float]:
    """ln(1 + characters)."""
    return [float(np.log1p(len(characters(text))))]


def layout(text: str) -> list[float]:
    """The features named in `LAYOUT`; no character of the text is looked at."""
    body = lines(text)
    widths = [len(characters(line)) for line in body] or [0]
    symbols = "".join(body).replace(" ", "")
    marks = sum(map(is_punctuation, symbols))
    of_lines = max(len(body), 1)
    return [
        float(len(body)),
        float(len(stanzas(text))),
        fmean(widths),
        pstdev(widths),
        float(max(widths)),
        float(min(widths)),
        marks / max(len(symbols), 1),
        sum(is_punctuation(line[-1]) for line in body) / of_lines,
        sum(" " in line for line in body) / of_lines,
    ]


def typography(text: str) -> str:
    """The text with one character for all: marks, blanks and line breaks are what is left."""
    return "".join(ANY_CHARACTER if characters(symbol) else symbol for symbol in text)


PREPROCESSORS: dict[SurfaceName, Callable[[str], str]] = {
    "typography_only": typography,
    "han_only": characters,
}
"""What is left of a text for its n-grams; else all of it, its Latin letters in lower case."""


def pipeline(name: SurfaceName, ngram: NGramParams, seed: int) -> Any:
    """A scikit-learn pipeline from texts to a classifier; classes weigh equally."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler
    from sklearn.svm import LinearSVC

    def counted(features: Callable[[str], list[float]]) -> list[Any]:
        return [FunctionTransformer(lambda texts: [features(t) for t in texts]), StandardScaler()]

    # The analyzer "char" reads a line break as itself, and a stanza's (two) as one blank.
    tfidf = TfidfVectorizer(
        analyzer="char",
        ngram_range=(ngram.shortest, ngram.longest),
        min_df=MIN_DOCUMENTS,
        preprocessor=PREPROCESSORS.get(name),
        sublinear_tf=True,
    )
    logistic = LogisticRegression(class_weight="balanced", max_iter=1000, random_state=seed)
    svm = LinearSVC(class_weight="balanced", random_state=seed)
    forest = RandomForestClassifier(TREES, class_weight="balanced", random_state=seed)
    steps: dict[SurfaceName, list[Any]] = {
        "char_ngrams": [tfidf, logistic],
        "char_ngrams_svm": [tfidf, svm],
        "char_ngrams_forest": [tfidf, forest],
        "typography_only": [tfidf, logistic],
        "han_only": [tfidf, logistic],
        "layout_only": [*counted(layout), logistic],
        "length_only": [*counted(length), logistic],
    }
    return make_pipeline(*steps[name])


def learner(
    name: SurfaceName, corpus: Corpus, ngram: NGramParams, seed: int, kept: dict[str, Any]
) -> Learner:
    """A `crossfit.Learner`; each fold's pipeline goes to `kept`."""

    def learn(rows: Rows, fold: str) -> Scorer:
        fitted = pipeline(name, ngram, seed)
        try:
            fitted.fit(corpus.texts_of(rows), corpus.labels[rows])
        except ValueError as error:
            if "no terms remain" not in str(error) and "empty vocabulary" not in str(error):
                raise
            raise UnlearntError(f"no n-gram stands in {MIN_DOCUMENTS} train poems") from error
        kept[fold] = fitted
        return lambda asked: scores_of(fitted, corpus.texts_of(asked))

    return learn


def scores_of(fitted: Any, texts: Sequence[str]) -> Floats:
    """A fitted pipeline's scores; higher: more likely an LLM's."""
    if not texts:
        return np.zeros(0)
    if hasattr(fitted, "decision_function"):
        return np.asarray(fitted.decision_function(list(texts)), np.float64)
    return np.asarray(fitted.predict_proba(list(texts))[:, 1], np.float64)


@dataclass(frozen=True)
class LinearNGrams:
    """A linear detector on character n-grams, as plain numbers one can read.

    Attributes:
        ngrams: ordered from the most human to the most LLM-like.
        idf, weights: one an n-gram.
        intercept: the score of a text that holds none of them.
    """

    detector: SurfaceName
    ngrams: tuple[str, ...]
    idf: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float

    @classmethod
    def of(cls, detector: SurfaceName, fitted: Any) -> Self:
        """The numbers of a fitted TF-IDF and linear classifier."""
        tfidf, classifier = fitted[0], fitted[-1]
        weights = classifier.coef_[0]
        order = np.argsort(weights, kind="stable")
        names = tfidf.get_feature_names_out()[order]
        return cls(
            detector,
            tuple(map(str, names)),
            tuple(tfidf.idf_[order].tolist()),
            tuple(weights[order].tolist()),
            float(classifier.intercept_[0]),
        )

    def scores(self, texts: Sequence[str]) -> Floats:
        """As the classifier's own decision function."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        lengths = [len(ngram) for ngram in self.ngrams]
        tfidf = TfidfVectorizer(
            analyzer="char",
            preprocessor=PREPROCESSORS.get(self.detector),
            ngram_range=(min(lengths), max(lengths)),
            vocabulary={ngram: column for column, ngram in enumerate(self.ngrams)},
            sublinear_tf=True,
        )
        tfidf.idf_ = np.array(self.idf)
        matrix = tfidf.transform(list(texts))
        return np.asarray(matrix @ np.array(self.weights) + self.intercept, np.float64)

    def save(self, path: Path) -> None:
        with replacing(path) as file:
            json.dump(asdict(self), file, ensure_ascii=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        values = json.loads(path.read_text(encoding="utf-8"))
        for name in ("ngrams", "idf", "weights"):
            values[name] = tuple(values[name])
        return cls(**values)


def facts(name: SurfaceName, fitted: Any) -> dict[str, Any]:
    """What a fold's control has learnt, for its file; a forest is refitted in seconds instead.

    scikit-learn keeps a forest only as a pickle, which runs code when it is read.
    """
    if name == "char_ngrams_forest":
        return {"trees": TREES, "n_features": int(fitted[-1].n_features_in_)}
    names = LAYOUT if name == "layout_only" else ("ln(1 + characters)",)
    scaler, classifier = fitted[-2], fitted[-1]
    return {
        "features": list(names),
        "mean": scaler.mean_.tolist(),
        "scale": scaler.scale_.tolist(),
        "weights": classifier.coef_[0].tolist(),
        "intercept": float(classifier.intercept_[0]),
    }

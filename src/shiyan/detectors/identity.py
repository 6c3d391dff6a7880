"""Is a detector's language model the one that wrote the poems it is tested on?

A detector that looks at the very probabilities that a poem was drawn from is *white-box*: its
numbers say nothing about generators whose weights nobody has. So each detector's weights are
compared with each generator's, by what decides their output and not by name, and the metrics
files say under `made`

    "weights": detector -> role -> "name (identity, family)"
    "scorer_is_generator": detector -> generator -> one of `RELATIONS`

for every detector that looks at a language model. With several models in several roles the
nearest relation counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shiyan.config import AnyModelParams, ApiModelParams, HubModelParams, TrainRobertaParams
from shiyan.models import identity_of
from shiyan.records import GeneratorIdentity, Poem

Relation = Literal["same weights", "same family", "unknown", "no"]
RELATIONS: tuple[Relation, ...] = ("same weights", "same family", "unknown", "no")
"""From the nearest on."""


@dataclass(frozen=True)
class Weights:
    """A language model as a detector uses it.

    Attributes:
        name: in conf/model/.
        identity: `sha256:…`, `repository@commit`, or an API's address and model.
        names: others by which an API may serve these weights.
        family: as conf/model/ has it.
    """

    name: str
    identity: str
    family: str
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, name: str, model: AnyModelParams) -> "Weights":
        """Those of a model of conf/model/.

        Raises:
            UserError: a local or hub model that cannot be had.
        """
        names = []
        if isinstance(model, ApiModelParams):
            names = [model.model]
        elif isinstance(model, HubModelParams):
            names = [model.repository]
        return cls(name, identity_of(name, model), model.family, frozenset(names))

    def __str__(self) -> str:
        return f"{self.name} ({self.identity}, {self.family})"


ByRole = Mapping[str, Weights]


def relation(weights: Weights, generator: GeneratorIdentity | None) -> Relation:
    """How near a detector's model is to a generator.

    An API's name for a model counts as the repository of that name: a server can be wrong
    about it, and then the number is taken for less than it is.
    """
    if generator is None:
        return "unknown"
    if weights.identity == generator.identity or weights.names & set(generator.names):
        return "same weights"
    if generator.family is None:
        return "unknown"
    return "same family" if generator.family == weights.family else "no"


def described(
    detectors: Mapping[str, ByRole],
    poems: Mapping[str, Poem],
    known: Iterable[GeneratorIdentity],
) -> dict[str, Any]:
    """The two entries of `made`.

    Args:
        detectors: detector -> role -> the model in it.
        poems: whose generators are compared.
        known: what the stage generate left of them.
    """
    behind = {generator.generator: generator for generator in known}
    names = sorted({p.generation.generator for p in poems.values() if p.generation})
    return {
        "weights": {
            detector: {role: str(weights) for role, weights in roles.items()}
            for detector, roles in detectors.items()
        },
        "scorer_is_generator": {
            detector: {
                name: min(
                    (relation(weights, behind.get(name)) for weights in roles.values()),
                    key=RELATIONS.index,
                )
                for name in names
            }
            for detector, roles in detectors.items()
        },
    }


def of_trained(
    params: TrainRobertaParams, models: Mapping[str, AnyModelParams]
) -> dict[str, ByRole]:
    """The model under the adapter, where one is trained on a language model."""
    if params.lora is None or params.lora.model is None:
        return {}
    name = params.lora.model
    return {params.lora.name: {"adapted": Weights.of(name, models[name])}}

"""One OpenAI-compatible chat client for everything that talks to an LLM.

    budget = Budget(params.budget, "asking.generate.budget")
    with Chat(name, model_params, cache=WorkCache(), at_once=4, budget=budget) as chat:
        for request, outcome in chat.ask_all(requests):
            if isinstance(outcome, ChatFailure):
                ...  # outcome.kind, outcome.reason: count it, it is no reply
            else:
                ...  # outcome.answer is what was said; outcome.thinking stands apart

- A *local* model (a GGUF) is served by llama.cpp on loopback; the server starts at
  the first request that is not kept yet and ends with the `with` block. An *API*
  model is asked at its base_url with the key from the environment variable it names.
- Every finished reply is kept in the work cache under kind "chat", in the moment it
  comes; the key is the model's identity (sha256, or base_url and model), the messages,
  every sampling parameter, the seed and `sample`. It is never asked for twice, also
  after kill -9. Key, port and concurrency are no part of it.
- A request that the server minds is noted under kind "chat_rejected"; the next run asks it
  again, after all others, so that what is minded never keeps the rest from being asked.
- A request that fails is a `ChatFailure`, a value with a reason; what the server sent
  instead of a reply is kept for reading under kind "chat_failed". What would fail every
  request (no key, a wrong key, no such model, no money, a server that is gone, the
  budget) is a `UserError`; what was finished until then is kept.
- Replies are never streamed: `stream` is sent as false, and a server that streams all
  the same is read to its end before a character is decoded.

Requests run in one event loop rather than in `work.map_unordered`'s threads: a thread
that waits for a socket cannot be interrupted, a coroutine can, so that Ctrl-C, a
budget and a dead server end the waiting at once.
"""

import asyncio
import dataclasses
import datetime
import json
import os
import random
import re
import sys
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, Literal, Self

from shiyan.answers import (
    Again,
    ChatFailure,
    ChatReply,
    Outcome,
    StopAskingError,
    finish_of,
    read_answer,
)
from shiyan.config import AnyModelParams, ApiModelParams, HubModelParams, LocalModelParams
from shiyan.errors import UserError
from shiyan.hiding import SECRET_NAME, Hiding
from shiyan.llama import LlamaServer
from shiyan.turns import without_control_tokens
from shiyan.work import WorkCache, digest

__all__ = [
    "AnyModelParams",
    "Budget",
    "Chat",
    "ChatFailure",
    "ChatReply",
    "ChatRequest",
    "Message",
    "Outcome",
    "Patience",
    "Usage",
    "price",
]


PAID = frozenset({"filtered", "reasoning_only", "no_answer"})
"""Failures that were answered, hence paid: they are kept like replies."""

NEUTRAL_SAMPLING: dict[str, Any] = {
    # llama.cpp's defaults would add top_k 40, min_p 0.05 and an order in which top_p
    # cuts before the temperature is applied; the papers name temperature and top_p only.
    "top_k": 0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "xtc_probability": 0.0,
    "dynatemp_range": 0.0,
    "mirostat": 0,
    "top_n_sigma": -1.0,
    "samplers": ["temperature", "top_p"],
}


@dataclass(frozen=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class ChatRequest:
    """What is asked, and how the answer is drawn; all of it decides the reply."""

    messages: tuple[Message, ...]
    temperature: float
    top_p: float
    max_tokens: int
    seed: int | None
    sample: int = 0
    """Tells equal requests apart: the sample's index, or the attempt's."""
    schema: str | None = None
    """JSON Schema, as JSON text, that the reply must follow; see `Chat.structured`."""
    top_log_probs: int = 0
    """Likeliest tokens to tell at each place of the reply, with their log-probabilities."""


# --- money --------------------------------------------------------------------------


class Budget:
    """Money that a stage may spend on its replies, those already kept included.

    Kept replies count because they were paid for: the sum is what the stage's result
    costs, however often it was interrupted.

    Args:
        limit: in the models' currency; None: no limit.
        key: the parameter's name, for messages.
    """

    def __init__(self, limit: float | None, key: str = "budget") -> None:
        self.limit = limit
        self.key = key
        self.spent = 0.0
        self.currency: str | None = None
        self._reserved = 0.0

    def admit(self, name: str, params: AnyModelParams) -> None:
        """Check that a model's replies can be paid from this budget.

        Raises:
            UserError: the model has no prices, or another currency than the one before.
        """
        if not isinstance(params, ApiModelParams):
            return
        if self.limit is None:
            # Nothing is held back; what was spent is told where it is in one currency.
            if params.price_per_million_prompt is not None:
                self.currency = params.currency
            return
        if params.price_per_million_prompt is None or params.price_per_million_completion is None:
            raise UserError(
                f"{self.key} is set but models.{name} has no prices; give it "
                "price_per_million_prompt and price_per_million_completion",
                2,
            )
        if self.currency not in (None, params.currency):
            raise UserError(
                f"{self.key} cannot hold two currencies ({self.currency} and {params.currency} "
                f"for {name}); give all prices in one",
                2,
            )
        self.currency = params.currency

    def reserve(self, most: float) -> bool:
        """Set `most` aside for a request; False where it would go over the limit."""
        if self.limit is not None and self.spent + self._reserved + most > self.limit:
            return False
        self._reserved += most
        return True

    def settle(self, reserved: float, cost: float) -> None:
        """Replace what was set aside by what was paid."""
        self._reserved -= reserved
        self.spent += cost

    def exhausted(self, name: str) -> UserError:
        return UserError(
            f"{self.key} of {self.limit:g} {self.currency or ''} is used up "
            f"({self.spent:.4f} spent, the next request to {name} would not fit); finished "
            f"replies are kept, so raise {self.key} and run again to go on"
        )


def price(params: AnyModelParams, prompt_tokens: float, completion_tokens: float) -> float:
    """What a request costs in the model's currency; local models and unknown prices: 0."""
    if not isinstance(params, ApiModelParams):
        return 0.0
    return (
        prompt_tokens * (params.price_per_million_prompt or 0.0)
        + completion_tokens * (params.price_per_million_completion or 0.0)
    ) / 1e6


def most_prompt_tokens(request: ChatRequest) -> int:
    """An upper bound: no byte-level tokenizer makes more tokens than bytes."""
    return sum(len(message.content.encode()) + 16 for message in request.messages)


# --- the client ---------------------------------------------------------------------


@dataclass(frozen=True)
class Patience:
    """How long a client goes on trying; times in seconds."""

    tries: int = 8
    first_wait: float = 0.5
    longest_wait: float = 30.0
    """Waits double from `first_wait` to here, with up to a quarter of jitter."""
    longest_retry_after: float = 120.0
    """A server that asks for more is left for this run."""
    connect: float = 5.0
    """For a connection."""
    timeout: float = 600.0
    """For one answer of an API to begin, or to go on; in all it may take twice as long."""
    local_timeout: float = 7200.0
    """Of a local server, which is watched and may share two busy cores."""
    timeouts: int = 2
    """Silent or endless tries before a request is given up."""
    empty: int = 2
    """Empty answers, each of them paid for, before a request is given up."""
    unreachable: int = 3
    """Rounds of refused connections before a server that never answered is given up."""
    away: float = 600.0
    """Waited in all for a server that has answered in this run and went away."""
    failed_in_a_row: int = 5
    """Requests in a row that failed through all their tries, likewise; and rejections where
    nothing else has come in this run."""

    def backoff(self, tried: int) -> float:
        """The wait after the `tried`-th try (from 1)."""
        wait = min(self.first_wait * 2.0 ** (tried - 1), self.longest_wait)
        return wait * random.uniform(1.0, 1.25)


@dataclass
class Usage:
    """What a `Chat` did, for metrics and notices."""

    kept: int = 0
    """Replies that were in the cache already."""
    asked: int = 0
    """Requests that were sent and answered, or failed, not counting further tries."""
    tries: int = 0
    """HTTP requests sent."""
    without_usage: int = 0
    """Replies whose server told no token counts."""
    failures: Counter[str] = field(default_factory=Counter)
    """By kind."""


class Chat:
    """A model that can be asked; use it as a context manager.

    Args:
        name: the model's name in conf/model/.
        params: its parameters; a hub model has no server and is refused.
        cache: where finished replies are kept.
        at_once: requests at once; an API model's own limit holds too.
        budget: shared by all models of a stage.
        patience: tries, waits and time-outs.

    Raises:
        UserError: at the first request that is not kept: no key, no model file, a proxy
            that cannot be used; and whenever going on is of no use.
    """

    def __init__(
        self,
        name: str,
        params: AnyModelParams,
        *,
        cache: WorkCache,
        at_once: int,
        budget: Budget | None = None,
        patience: Patience | None = None,
    ) -> None:
        if isinstance(params, HubModelParams):
            raise UserError(
                f"models.{name} is a hub model, which is read for scoring and cannot be asked; "
                "name a GGUF (kind: local), or serve it, with vLLM say, and name it as kind: api",
                2,
            )
        if isinstance(params, ApiModelParams):
            check_address(name, params.base_url)
        self.name = name
        self.params = params
        self.usage = Usage()
        self._cache = cache
        self.at_once = at_once
        if isinstance(params, ApiModelParams):
            self.at_once = min(at_once, params.requests_at_once)
        self._budget = budget if budget is not None else Budget(None)
        self._budget.admit(name, params)
        self._patience = patience if patience is not None else Patience()
        self._server: LlamaServer | None = None
        self._not_before = 0.0
        self._has_answered = False
        self._is_away = False
        self._given_up = ""
        self._door = asyncio.Lock()
        self._failed_in_a_row = 0
        self._has_accepted = False
        self._minded: list[str] = []
        self._told: set[str] = set()
        # What is kept already may hold the key: it was not always hidden.
        variable = params.key_variable if isinstance(params, ApiModelParams) else None
        self._hiding = Hiding(os.environ.get(variable, "").strip() if variable else "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    @property
    def structured(self) -> Literal["json_schema", "json_object"] | None:
        """How far the server holds a reply to a request's schema; None: not at all."""
        return structured_by(self.params)

    # what is kept

    @property
    def identity(self) -> dict[str, Any]:
        """What decides whose replies these are; part of every key, and of signatures."""
        if isinstance(self.params, ApiModelParams):
            return {
                "base_url": self.params.base_url.rstrip("/"),
                "model": self.params.model,
                "extra": self.params.extra,
            }
        return {"sha256": self._sha256}

    @cached_property
    def _sha256(self) -> str:
        from shiyan import models

        assert isinstance(self.params, LocalModelParams)
        return self.params.sha256 or models.sha256_of(models.model_file(self.name, self.params))

    def key(self, request: ChatRequest) -> dict[str, Any]:
        """The work cache's key of a request."""
        sampling = NEUTRAL_SAMPLING if isinstance(self.params, LocalModelParams) else {}
        asked = dataclasses.asdict(request) | {"max_tokens": self.most_tokens(request)}
        if self.structured is None or request.schema is None:
            # What is not sent decides nothing.
            del asked["schema"]
        if not request.top_log_probs:
            del asked["top_log_probs"]
        return {"model": self.identity, "request": asked, "sampling": sampling}

    def kept(self, request: ChatRequest) -> Outcome | None:
        """The outcome that is in the cache, or None; what holds something else is set aside."""
        key = self.key(request)
        kept = self._cache.get_json("chat", key)
        if kept is None:
            return None
        try:
            value = self._hiding.value(kept)
            if "reply" not in value:
                return ChatFailure(**value["failure"])
            reply = ChatReply(**value["reply"])
            return dataclasses.replace(reply, finish_reason=finish_of(reply.finish_reason))
        except (TypeError, LookupError, RecursionError):
            self._cache.set_aside(self._cache.path("chat", key))
            return None

    def _keep(self, request: ChatRequest, outcome: Outcome) -> None:
        name = "failure" if isinstance(outcome, ChatFailure) else "reply"
        self._cache.put_json("chat", self.key(request), {name: dataclasses.asdict(outcome)})

    def _rejection_key(self, request: ChatRequest) -> dict[str, Any]:
        """All that is sent: a rejection may be due to what decides no reply."""
        return {"request": self.key(request), "sent": self._body(request)}

    def _was_rejected(self, request: ChatRequest) -> bool:
        return (REJECTED, self._rejection_key(request)) in self._cache

    def _note_rejection(self, request: ChatRequest, failure: ChatFailure) -> None:
        """Note what the server minded, so that a later run gets on with the others first.

        A server that took nothing else may mind how all is asked: such rejections are counted.
        """
        self._cache.put_json(REJECTED, self._rejection_key(request), dataclasses.asdict(failure))
        if not self._has_accepted:
            self._minded.append(failure.reason)

    def _accept(self) -> None:
        """The server takes such requests: what it rejected, it rejected for its own sake."""
        self._has_accepted = True
        self._minded.clear()

    # asking

    def ask(self, request: ChatRequest) -> Outcome:
        """Ask one request."""
        ((_, outcome),) = self.ask_all([request])
        return outcome

    def ask_all(
        self, requests: Sequence[ChatRequest], what: str = "replies"
    ) -> Iterator[tuple[ChatRequest, Outcome]]:
        """Yield every request with its outcome: those kept first, then each as it comes.

        Equal requests are asked once. Progress stands on stderr under the model's name
        and `what`.
        """
        from tqdm import tqdm

        waiting: dict[str, list[ChatRequest]] = {}
        finished: list[tuple[ChatRequest, Outcome]] = []
        for request in requests:
            if (outcome := self.kept(request)) is not None:
                finished.append((request, outcome))
            else:
                waiting.setdefault(digest(self.key(request)), []).append(request)
        for request, outcome in finished:
            self.usage.kept += 1
            if isinstance(outcome, ChatReply):
                self._accept()
            self._budget.settle(0.0, self._cost(request, outcome))
            yield request, outcome
        if not waiting:
            return
        with tqdm(
            total=len(requests),
            initial=len(finished),
            desc=f"{self.name}: {what}",
            unit="reply",
            file=sys.stderr,
            dynamic_ncols=True,
        ) as bar:
            firsts = sorted((same[0] for same in waiting.values()), key=self._was_rejected)
            for request, outcome in self._ask_waiting(firsts):
                for same in waiting[digest(self.key(request))]:
                    bar.update()
                    yield same, outcome

    def _ask_waiting(
        self, requests: Iterable[ChatRequest]
    ) -> Iterator[tuple[ChatRequest, Outcome]]:
        """Ask at most `at_once` at a time; a stop loses only what is in flight."""
        loop = asyncio.new_event_loop()
        self._door = asyncio.Lock()
        self._is_away, self._given_up = False, ""
        running: dict[asyncio.Task[Outcome], tuple[ChatRequest, float]] = {}
        client = None
        try:
            client = self._connect()
            rest = iter(requests)
            out_of_money = False
            while True:
                while not (out_of_money or self._is_minded) and len(running) < self.at_once:
                    if (request := next(rest, None)) is None:
                        break
                    most = self._most_cost(request)
                    if not self._budget.reserve(most):
                        # What is under way was paid for already: it is waited for.
                        out_of_money = True
                        break
                    running[loop.create_task(self._ask(client, request))] = request, most
                if not running:
                    break
                done, _ = loop.run_until_complete(
                    asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                )
                for task in done:
                    request, most = running.pop(task)
                    outcome = task.result()
                    self._budget.settle(most, self._cost(request, outcome))
                    yield request, outcome
            if self._is_minded:
                raise self._too_many_failed(len(self._minded), self._minded[-1])
            if out_of_money:
                raise self._budget.exhausted(self.name)
        finally:
            for task in running:
                task.cancel()
            if running:
                loop.run_until_complete(asyncio.wait(running))
                # One error is told; asking the others for theirs keeps asyncio quiet.
                for task in running:
                    task.cancelled() or task.exception()
            if client is not None:
                loop.run_until_complete(client.close())
            loop.close()

    @property
    def _is_minded(self) -> bool:
        """Was so much rejected, and nothing else answered, that only what is under way counts?"""
        return len(self._minded) >= self._patience.failed_in_a_row

    def _most_cost(self, request: ChatRequest) -> float:
        return price(self.params, most_prompt_tokens(request), self.most_tokens(request))

    def most_tokens(self, request: ChatRequest) -> int:
        """The limit that is sent: of the reply, and of thinking where the server counts it."""
        more = self.params.reasoning_tokens if isinstance(self.params, ApiModelParams) else 0
        return request.max_tokens + more

    def _cost(self, request: ChatRequest, outcome: Outcome) -> float:
        """What an outcome cost; where the server told no usage, an upper bound."""
        prompt, completion = outcome.prompt_tokens, outcome.completion_tokens
        if isinstance(outcome, ChatFailure) and outcome.kind not in PAID:
            # Nothing, but for empty answers before it.
            return price(self.params, prompt or 0, completion or 0)
        if prompt is None:
            prompt = most_prompt_tokens(request)
        if completion is None:
            completion = len((outcome.text + (outcome.reasoning or "")).encode())
        return price(self.params, prompt, completion)

    async def _ask(self, client: Any, request: ChatRequest) -> Outcome:
        """One request through all its tries; what was answered is kept before it returns."""
        started = time.monotonic()
        outcome = dataclasses.replace(
            await self._try_repeatedly(client, request), seconds=time.monotonic() - started
        )
        self.usage.asked += 1
        if isinstance(outcome, ChatFailure):
            self.usage.failures[outcome.kind] += 1
        elif outcome.completion_tokens is None:
            self.usage.without_usage += 1
        if isinstance(outcome, ChatReply) or outcome.kind in PAID:
            self._keep(request, outcome)
            self._accept()
        elif outcome.kind == "rejected":
            self._note_rejection(request, outcome)
        return outcome

    async def _try_repeatedly(self, client: Any, request: ChatRequest) -> Outcome:
        again = Again("not asked")
        silent = 0
        empty: list[ChatReply] = []
        bodies: list[str] = []
        for tried in range(1, self._patience.tries + 1):
            await self._wait_for_turn()
            try:
                answer, body = await self._try(client, request)
            except StopAskingError as stop:
                raise UserError(
                    self._hidden(
                        f"{self.name} at {self._where()} {stop}; finished replies are kept, "
                        f"so put it right and run again{self._hint(str(stop))}"
                    )
                ) from None
            if body:
                bodies.append(body)
                self._cache.put_json("chat_failed", self.key(request), bodies)
            if not isinstance(answer, Again):
                self._failed_in_a_row = 0
                return _with_tokens_of(empty, answer)
            again = answer
            silent += again.reason in (SILENT, TOO_SLOW, TOO_LONG)
            empty += [again.empty] if again.empty is not None else []
            # A local model's draw is decided by the seed: it would say nothing again.
            most_empty = 1 if isinstance(self.params, LocalModelParams) else self._patience.empty
            if silent >= self._patience.timeouts or len(empty) >= most_empty:
                break
            if tried < self._patience.tries:
                await self._back_off(again, tried)
        reason = f"{self._hidden(again.reason)} (after {tried} {'try' if tried == 1 else 'tries'})"
        self._count_failed(reason)
        if again.empty is not None:
            return _with_tokens_of(empty[:-1], again.empty.failed(again.kind, reason))
        return _with_tokens_of(empty, ChatFailure(again.kind, reason))

    def _count_failed(self, reason: str) -> None:
        """A server that fails every request through all its tries is not asked for more."""
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= self._patience.failed_in_a_row:
            raise self._too_many_failed(self._failed_in_a_row, reason)

    def _too_many_failed(self, n: int, reason: str) -> UserError:
        return UserError(
            f"{self.name} at {self._where()} failed {n} requests in a row, the last with: "
            f"{self._hidden(reason)}; finished replies are kept, so put it right or run again later"
        )

    async def _wait_for_turn(self) -> None:
        while (wait := self._not_before - time.monotonic()) > 0:
            await _sleep(wait)

    async def _back_off(self, again: Again, tried: int) -> None:
        """Wait before the next try; a busy server is left alone by all requests."""
        asked = again.wait_s
        if asked is not None and asked > self._patience.longest_retry_after:
            # A year has four digits.
            wait_for = datetime.timedelta(seconds=min(asked, 1e11))
            until = datetime.datetime.now().astimezone() + wait_for
            when = f"{until:%H:%M}" if wait_for.days < 1 else f"{until:%Y-%m-%d %H:%M}"
            raise UserError(
                f"{self.name} at {self._where()} asks to wait {asked:.0f} s, until "
                f"{when} ({self._hidden(again.reason)}), more than the "
                f"{self._patience.longest_retry_after:.0f} s that are waited for; finished "
                "replies are kept, so run again then"
            )
        wait = asked if asked is not None else self._patience.backoff(tried)
        self._tell_waiting(again.reason, wait, f"{self._patience.tries} times a request")
        if again.kind == "unavailable":
            self._not_before = max(self._not_before, time.monotonic() + wait)
        await _sleep(wait)

    def _tell_waiting(self, reason: str, wait: float, most: str) -> None:
        """Say once a reason why nothing seems to happen; a bar that stands still does not."""
        from tqdm import tqdm

        reason = self._hidden(reason)
        if reason not in self._told:
            self._told.add(reason)
            tqdm.write(
                f"notice: {self.name} at {self._where()}: {reason}; trying again in {wait:.0f} s, "
                f"at most {most}",
                file=sys.stderr,
            )

    async def _try(
        self, client: Any, request: ChatRequest
    ) -> tuple[ChatReply | ChatFailure | Again, str]:
        """Have one HTTP answer; (what it says, its body).

        A server that cannot be reached is no failure of the request: all of them wait, one
        asks whether it is back, and none of their tries is used up.
        """
        while True:
            if not self._is_away and (answer := await self._send(client, request)) is not None:
                return answer
            async with self._door:
                # Whoever waited at the door may find the server back.
                if self._is_away:
                    return await self._knock(client, request)

    async def _knock(
        self, client: Any, request: ChatRequest
    ) -> tuple[ChatReply | ChatFailure | Again, str]:
        """Send a request until it is answered, with longer and longer waits.

        Raises:
            StopAskingError: the server was never there, or stays away.
        """
        waited, rounds = 0.0, 1
        if self._given_up:
            # Those who wait at the door do not knock on.
            raise StopAskingError(self._given_up)
        while rounds < self._patience.unreachable or (
            self._has_answered and waited < self._patience.away
        ):
            wait = self._patience.backoff(rounds)
            self._tell_waiting(
                REFUSED,
                wait,
                f"for {self._patience.away:.0f} s"
                if self._has_answered
                else f"{self._patience.unreachable - 1} times",
            )
            await _sleep(wait)
            waited, rounds = waited + wait, rounds + 1
            if (answer := await self._send(client, request)) is not None:
                self._told.discard(REFUSED)
                return answer
        away = f" any more, for {waited:.0f} s now" if self._has_answered else ""
        self._given_up = f"cannot be reached{away}{_through_proxy(self._url())}"
        raise StopAskingError(self._given_up)

    async def _send(
        self, client: Any, request: ChatRequest
    ) -> tuple[ChatReply | ChatFailure | Again, str] | None:
        """Send one HTTP request; None where no connection came about."""
        import openai

        self.usage.tries += 1
        body = self._body(request)
        try:
            # The client's own time-out starts anew with every byte.
            async with asyncio.timeout(2 * self._limit):
                raw = await client.chat.completions.with_raw_response.create(**body)
            response = raw.http_response
        except TimeoutError:
            return Again(TOO_SLOW), ""
        except AnswerTooLongError:
            return Again(TOO_LONG, "broken"), ""
        except (ValueError, ArithmeticError, ExceptionGroup):
            # Of libraries below that are led astray, by a redirect to port 99999 say.
            return Again("answered with what HTTP does not allow", "broken"), ""
        except openai.APIStatusError as error:
            response = error.response
        except openai.APIConnectionError as error:
            silence = self._read_silence(error)
            self._is_away = silence is None
            return None if silence is None else (silence, "")
        self._is_away, self._has_answered = False, True
        content, headers = response.content, response.headers
        answer = read_answer(response.status_code, content, headers, self._hiding)
        if isinstance(answer, ChatReply):
            return answer, ""
        return answer, self._hidden(content.decode("utf-8", "replace"))[:MOST_OF_A_FAILURE]

    def _read_silence(self, error: Exception) -> Again | None:
        """What a connection that brought no answer means; None: there was none.

        Raises:
            StopAskingError: a server of ours has ended.
        """
        if self._server is not None and (end := self._server.ended()) is not None:
            raise StopAskingError(
                f"has ended by itself ({end}); memory may have been short, "
                "in which case fewer requests at once would help"
            )
        cause = type(error.__cause__).__name__
        if cause in ("ReadTimeout", "WriteTimeout", "PoolTimeout"):
            return Again(SILENT)
        if cause in ("ConnectError", "ConnectTimeout", "ProxyError"):
            return None
        ended = re.match("server disconnected|peer closed", str(error.__cause__), re.IGNORECASE)
        if cause in ("RemoteProtocolError", "DecodingError") and not ended:
            return Again("answered with what HTTP does not allow", "broken")
        return Again("the connection broke before the answer was whole", "broken")

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        """The request's fields; every sampling parameter is sent, none left to the server."""
        body: dict[str, Any] = {
            "messages": [
                {"role": message.role, "content": without_control_tokens(message.content)}
                for message in request.messages
            ],
            "temperature": request.temperature,
            "top_p": request.top_p,
            "stream": False,
        }
        if request.seed is not None:
            body["seed"] = request.seed
        if request.top_log_probs:
            body |= {"logprobs": True, "top_logprobs": request.top_log_probs}
        if request.schema is not None and self.structured is not None:
            body["response_format"] = _response_format(self.structured, request.schema)
        if isinstance(self.params, ApiModelParams):
            body["model"] = self.params.model
            body[self.params.max_tokens_name] = self.most_tokens(request)
            return body | {"extra_body": self.params.extra}
        return body | {
            "model": self.name,
            "max_tokens": request.max_tokens,
            "extra_body": NEUTRAL_SAMPLING,
        }

    # reaching the server

    def check_ready(self) -> None:
        """Look for key and proxy before hours of other work; nothing is sent or started.

        Raises:
            UserError: the key is not there, or a proxy variable cannot be used.
        """
        self._api_key()
        if isinstance(self.params, ApiModelParams) and not is_loopback(self.params.base_url):
            check_proxies(self.params.base_url)

    def _connect(self) -> Any:
        """An openai client, after the local server is up or key and proxies were checked."""
        import openai

        local = is_loopback(self._url()) if isinstance(self.params, ApiModelParams) else True
        self.check_ready()
        if isinstance(self.params, LocalModelParams) and self._server is None:
            from shiyan import models

            self._server = LlamaServer(
                self.name,
                models.model_file(self.name, self.params),
                self.at_once,
                self.params.context,
            )
        # Whatever these variables hold belongs to OpenAI and to no other provider.
        omitted = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        timeout = openai.Timeout(self._limit, connect=self._patience.connect)
        return openai.AsyncOpenAI(
            api_key=self._api_key(),
            base_url=self._url(),
            max_retries=0,
            timeout=timeout,
            default_headers=omitted,  # type: ignore[arg-type]
            http_client=openai.DefaultAsyncHttpxClient(
                # Loopback never goes through a proxy, whatever the environment says.
                trust_env=not local and not _bypasses_proxies(self._url()),
                # The prompt would go to wherever it leads, and the reply would count.
                follow_redirects=False,
                timeout=timeout,
                event_hooks={"response": [read_limited]},
            ),
        )

    @property
    def _limit(self) -> float:
        """Seconds that a server may be silent."""
        patience = self._patience
        return patience.timeout if self._server is None else patience.local_timeout

    def _api_key(self) -> str:
        if self._server is not None:
            return self._server.key
        if not isinstance(self.params, ApiModelParams) or self.params.key_variable is None:
            return "none"
        key = os.environ.get(self.params.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            state = "is not set" if not key else "holds characters that no key has"
            raise UserError(
                f"{self.name} needs its key in the environment variable "
                f"{self.params.key_variable}, which {state}; set it, or name another model",
                2,
            )
        self._hiding = Hiding(key)
        return key

    def _url(self) -> str:
        if isinstance(self.params, ApiModelParams):
            return self.params.base_url
        return self._server.base_url if self._server is not None else "http://127.0.0.1"

    def _where(self) -> str:
        """The server's host for messages, without credentials."""
        parts = urllib.parse.urlsplit(self._url())
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)

    def _hidden(self, text: str) -> str:
        """The text without the key, should a server echo it."""
        return re.sub(r"://[^/@\s]+@", "://…@", self._hiding.text(text))

    def _hint(self, stop: str) -> str:
        if "the address" in stop:
            return f" (asked was {self._url().rstrip('/')}/chat/completions)"
        if isinstance(self.params, ApiModelParams) and self.params.key_variable and "key" in stop:
            return f" (the key comes from {self.params.key_variable})"
        return ""


def _with_tokens_of(empty: Sequence[ChatReply], outcome: Outcome) -> Outcome:
    """The outcome with the tokens of the empty answers before it, which were paid for too."""
    if not empty:
        return outcome
    answers = (*empty, outcome)
    return dataclasses.replace(
        outcome,
        prompt_tokens=_sum(answer.prompt_tokens for answer in answers),
        completion_tokens=_sum(answer.completion_tokens for answer in answers),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


REJECTED = "chat_rejected"
"""Kind of the work cache: requests that a server minded, and why."""
MOST_BYTES = 8 * 2**20
"""Of an answer, unpacked; the longest reply with its log-probabilities is well below."""
MOST_OF_A_FAILURE = 64 * 2**10
"""Characters that are kept of what a server sent instead of a reply."""
TOO_SLOW = "the answer did not come to its end in time"
TOO_LONG = f"the answer is longer than {MOST_BYTES // 2**20} MiB"
SILENT = "no answer within the time-out"
REFUSED = "the connection was refused"

_sleep = asyncio.sleep


class AnswerTooLongError(Exception):
    """Raised while an answer is read."""


async def read_limited(response: Any) -> None:
    """Read the body of an HTTP answer, packed or not, to its end or to `MOST_BYTES`.

    Raises:
        AnswerTooLongError: there is more; the connection is closed.
    """
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise AnswerTooLongError
    # Where httpx itself keeps what it has read: it has no other place for it.
    response._content = b"".join(parts)


def structured_by(params: AnyModelParams) -> Literal["json_schema", "json_object"] | None:
    """How a model's server can be held to a shape: llama.cpp's own always can, by grammar."""
    if isinstance(params, ApiModelParams):
        return params.structured
    return "json_schema" if isinstance(params, LocalModelParams) else None


def _response_format(kind: str, schema: str) -> dict[str, Any]:
    if kind == "json_object":
        return {"type": kind}
    return {"type": kind, "json_schema": {"name": "answer", "schema": json.loads(schema)}}


def check_address(name: str, url: str) -> None:
    """Refuse a base_url that cannot be asked, or that would tell a secret.

    Raises:
        UserError: it is no http address, or holds credentials.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(
            f"models.{name}.base_url is {_shown(url)!r}, which is no http address; "
            "write it as https://HOST/v1",
            2,
        )
    fields = [field for field, _ in urllib.parse.parse_qsl(parts.query, keep_blank_values=True)]
    secret = [field for field in fields if re.fullmatch(SECRET_NAME, field.lower())]
    if parts.username or parts.password or secret:
        where = f" in {secret[0]}" if secret else ""
        raise UserError(
            f"models.{name}.base_url holds credentials{where}, which would stand in every record; "
            "put the key into an environment variable and name that in key_variable",
            2,
        )


def _shown(url: str) -> str:
    """An address for a message: what may be a credential is left out."""
    return re.sub(r"[?#].*|[^/@]*@", "…", url, flags=re.DOTALL)


def is_loopback(url: str) -> bool:
    host = (urllib.parse.urlsplit(url).hostname or "").lower()
    return host in ("localhost", "::1") or host.startswith("127.")


def _bypasses_proxies(url: str) -> bool:
    return bool(urllib.request.proxy_bypass(urllib.parse.urlsplit(url).netloc))


def check_proxies(url: str) -> None:
    """Refuse a proxy that the client cannot use, before anything is sent.

    Raises:
        UserError: names the variable and the scheme, never the credentials.
    """
    if _bypasses_proxies(url):
        return
    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        for name in (variable, variable.upper()):
            scheme, separator, _ = os.environ.get(name, "").partition("://")
            if separator and scheme.lower() not in ("http", "https"):
                raise UserError(
                    f"the environment variable {name} names a proxy of scheme {scheme}, which "
                    "the client cannot use (http and https it can); change it, or list "
                    f"{urllib.parse.urlsplit(url).hostname} in no_proxy",
                    2,
                )


def _through_proxy(url: str) -> str:
    """Names the proxy variable that a connection went by, if any."""
    if is_loopback(url) or _bypasses_proxies(url):
        return ""
    scheme = urllib.parse.urlsplit(url).scheme
    for variable in (f"{scheme}_proxy", "all_proxy"):
        for name in (variable, variable.upper()):
            if os.environ.get(name):
                return f" through the proxy that {name} names"
    return ""

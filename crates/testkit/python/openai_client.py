"""OpenAI's own client against a server: chats, streams, tools, several answers, log probabilities, refusals, and a crowd.

openai_client.py ADDRESS KEY MODEL REQUESTS AT_ONCE
openai_client.py ADDRESS KEY MODEL embeddings ANSWERS.json

Exits with an assertion where an answer is not what the API promises.
"""

import asyncio
import json
import sys

import openai

ADDRESS, KEY, MODEL = sys.argv[1:4]
REQUESTS, AT_ONCE = (0, 0) if sys.argv[4] == "embeddings" else map(int, sys.argv[4:6])
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say something."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["city", "days"],
            "additionalProperties": False,
            "$defs": {"City": {"enum": ["Oslo", "Rome"]}},
        },
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 0, "maximum": 30}, "name": {"type": "string", "maxLength": 4}},
    "required": ["kind", "age", "name"],
    "additionalProperties": False,
}


def refused(kind, ask):
    try:
        ask()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was expected")


def main():
    client = openai.OpenAI(base_url=f"{ADDRESS}/v1", api_key=KEY, max_retries=0)
    assert [model.id for model in client.models.list()] == [MODEL]
    greedy = dict(model=MODEL, messages=MESSAGES, temperature=0, max_tokens=12)

    whole = client.chat.completions.create(**greedy)
    choice = whole.choices[0]
    assert (choice.message.role, choice.finish_reason) == ("assistant", "length"), whole
    assert whole.usage.completion_tokens == 12 and whole.usage.total_tokens == whole.usage.prompt_tokens + 12

    stream = list(client.chat.completions.create(**greedy, stream=True, stream_options={"include_usage": True}))
    assert stream[0].choices[0].delta.role == "assistant"
    text = "".join(part.choices[0].delta.content or "" for part in stream if part.choices)
    assert text == choice.message.content, (text, choice.message.content)
    assert stream[-2].choices[0].finish_reason == "length" and stream[-1].usage.completion_tokens == 12

    with_tools = client.chat.completions.create(**greedy, tools=[TOOL])
    assert with_tools.usage.prompt_tokens > whole.usage.prompt_tokens, "the template was not told of the tool"

    several = client.chat.completions.create(**{**greedy, "temperature": 1.0}, n=3, seed=5)
    again = client.chat.completions.create(**{**greedy, "temperature": 1.0}, n=3, seed=5)
    texts = [choice.message.content for choice in several.choices]
    assert texts == [choice.message.content for choice in again.choices] and len(set(texts)) > 1

    spoken = client.chat.completions.create(**greedy, logprobs=True, top_logprobs=4).choices[0].logprobs.content
    assert len(spoken) == 12 and all(len(token.top_logprobs) == 4 for token in spoken)
    assert all(token.logprob == token.top_logprobs[0].logprob for token in spoken)

    plain = client.completions.create(model=MODEL, prompt="Once", temperature=0, max_tokens=8)
    by_tokens = client.completions.create(model=MODEL, prompt=list(b"Once"), temperature=0, max_tokens=8)
    assert plain.choices[0].text == by_tokens.choices[0].text
    both = client.completions.create(model=MODEL, prompt=["Once", "Twice"], temperature=0, max_tokens=8)
    assert len(both.choices) == 2 and both.choices[0].text == plain.choices[0].text
    first = plain.choices[0].text[2:4]
    if first.strip("\ufffd"):
        stopped = client.completions.create(model=MODEL, prompt="Once", temperature=0, max_tokens=8, stop=[first])
        assert stopped.choices[0].finish_reason == "stop" and first not in stopped.choices[0].text

    forms(client, greedy)
    tools(client, greedy)

    assert "temperature" in refused(openai.BadRequestError, lambda: client.chat.completions.create(**{**greedy, "temperature": -1}))
    assert "unknown role" in refused(
        openai.BadRequestError, lambda: client.chat.completions.create(**{**greedy, "messages": [{"role": "alien", "content": "x"}]})
    )
    assert "at most" in refused(openai.BadRequestError, lambda: client.completions.create(model=MODEL, prompt="x" * 5000))
    refused(openai.NotFoundError, lambda: client.completions.create(model="another", prompt="x"))
    stranger = openai.OpenAI(base_url=f"{ADDRESS}/v1", api_key="guessed", max_retries=0)
    refused(openai.AuthenticationError, lambda: stranger.models.list())
    asyncio.run(crowd())
    print("all answered")


def forms(client, greedy):
    """Answers of a form, and tokens that are liked more or less."""
    longer = {**greedy, "max_tokens": 120}

    def of(schema):
        return {"type": "json_schema", "json_schema": {"name": "pet", "schema": schema, "strict": True}}

    for settings in (longer, {**longer, "temperature": 1.3, "top_p": 0.9, "seed": 3}):
        answer = client.chat.completions.create(**settings, response_format=of(SCHEMA)).choices[0]
        pet = json.loads(answer.message.content)
        assert answer.finish_reason == "stop" and set(pet) == {"kind", "age", "name"}, answer
        assert pet["kind"] in ("cat", "dog") and 0 <= pet["age"] <= 30 and len(pet["name"]) <= 4, pet
        parts = client.chat.completions.create(**settings, response_format=of(SCHEMA), stream=True)
        text = "".join(part.choices[0].delta.content or "" for part in parts)
        assert text == answer.message.content, (text, answer)
    started = client.chat.completions.create(**greedy, response_format={"type": "json_object"}).choices[0]
    assert started.message.content.startswith("{"), started
    for schema in ({"type": "alien"}, {"$ref": "https://example.com"}, {"type": "string", "pattern": "("}):
        assert "JSON schema" in refused(openai.BadRequestError, lambda: client.chat.completions.create(**greedy, response_format=of(schema)))
    refused(openai.BadRequestError, lambda: client.chat.completions.create(**greedy, response_format={"type": "grammar"}))

    liked = client.completions.create(model=MODEL, prompt="Once", temperature=0, max_tokens=4, logit_bias={"65": 100})
    assert liked.choices[0].text == "AAAA", liked
    without = client.completions.create(model=MODEL, prompt="Once", temperature=0, max_tokens=1, logprobs=1)
    first = max(without.choices[0].logprobs.top_logprobs[0].items(), key=lambda item: item[1])[0]
    if len(first.encode()) == 1 and first != "\ufffd":
        other = client.completions.create(model=MODEL, prompt="Once", temperature=0, max_tokens=1, logit_bias={str(ord(first)): -100})
        assert other.choices[0].text != first
    for bias in ({"99999": 1}, {"x": 1}, {"1": 1000}):
        refused(openai.BadRequestError, lambda: client.completions.create(model=MODEL, prompt="x", logit_bias=bias))


def tools(client, greedy):
    """Functions that must be called are called, in one piece and in parts."""
    longer = {**greedy, "max_tokens": 150, "tools": [TOOL]}
    named = {"type": "function", "function": {"name": "weather"}}
    for choice in ("required", named):
        answer = client.chat.completions.create(**longer, tool_choice=choice).choices[0]
        (call,) = answer.message.tool_calls
        asked = json.loads(call.function.arguments)
        assert answer.finish_reason == "tool_calls" and not answer.message.content, answer
        assert call.function.name == "weather" and asked["city"] in ("Oslo", "Rome") and 1 <= asked["days"] <= 9, call
    parts = list(client.chat.completions.create(**longer, tool_choice="required", stream=True))
    deltas = [delta for part in parts for delta in part.choices[0].delta.tool_calls or []]
    assert {delta.index for delta in deltas} == {0} and deltas[0].function.name == "weather" and deltas[0].id, deltas
    assert json.loads("".join(delta.function.arguments for delta in deltas)) == asked, deltas
    assert parts[-1].choices[0].finish_reason == "tool_calls", parts[-1]
    # The call and what came of it go back into the template.
    more = greedy["messages"] + [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    client.chat.completions.create(**{**greedy, "messages": more}, tools=[TOOL])
    silent = client.chat.completions.create(**greedy, tools=[TOOL], tool_choice="none")
    assert silent.usage.prompt_tokens == client.chat.completions.create(**greedy).usage.prompt_tokens
    unknown = {"type": "function", "function": {"name": "none"}}
    refused(openai.BadRequestError, lambda: client.chat.completions.create(**longer, tool_choice=unknown))


async def crowd():
    """Many at once, some of which go away: each that stays gets what it gets alone."""
    client = openai.AsyncOpenAI(base_url=f"{ADDRESS}/v1", api_key=KEY, max_retries=0, timeout=600)
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(number):
        prompt = f"question {number % 7}: " + "and so on, " * (number % 7)
        async with gate:
            if number % 10 == 9:
                stream = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=64, stream=True)
                async for _ in stream:
                    break
                await stream.close()
                return None
            answer = await client.completions.create(model=MODEL, prompt=prompt, temperature=0, max_tokens=6)
            return number % 7, answer.choices[0].text

    answers = [answer for answer in await asyncio.gather(*map(ask, range(REQUESTS))) if answer]
    assert len(answers) == REQUESTS - REQUESTS // 10
    assert len(set(answers)) == 7, "the same question got several answers"


def embeddings(path):
    """Vectors by the client's own ways of asking, against those of a file."""
    client = openai.OpenAI(base_url=f"{ADDRESS}/v1", api_key=KEY, max_retries=0)
    with open(path) as file:
        expected = json.load(file)
    texts = [line["text"] for line in expected]
    # The client asks for base64 where nothing is said, and decodes it.
    for more in ({}, {"encoding_format": "float"}):
        made = client.embeddings.create(model=MODEL, input=texts, **more)
        assert [one.index for one in made.data] == list(range(len(texts)))
        for one, line in zip(made.data, expected):
            assert max(abs(a - b) for a, b in zip(one.embedding, line["vector"], strict=True)) < 1e-4, line["text"]
        assert made.usage.prompt_tokens == sum(len(line["tokens"]) for line in expected)
    by_tokens = client.embeddings.create(model=MODEL, input=expected[0]["tokens"]).data[0].embedding
    alone = client.embeddings.create(model=MODEL, input=texts[0]).data[0].embedding
    assert max(abs(a - b) for a, b in zip(by_tokens, alone)) < 1e-6
    short = client.embeddings.create(model=MODEL, input=texts[0], dimensions=8).data[0].embedding
    assert len(short) == 8 and abs(sum(x * x for x in short) - 1) < 1e-5
    assert "dimensions" in refused(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input="w1", dimensions=33))
    assert "at most 20" in refused(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input="w1 " * 30))
    assert "inputs" in refused(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input=[]))
    refused(openai.NotFoundError, lambda: client.embeddings.create(model="another", input="w1"))
    refused(openai.NotFoundError, lambda: client.completions.create(model=MODEL, prompt="w1"))
    stranger = openai.OpenAI(base_url=f"{ADDRESS}/v1", api_key="guessed", max_retries=0)
    refused(openai.AuthenticationError, lambda: stranger.embeddings.create(model=MODEL, input="w1"))


embeddings(sys.argv[5]) if sys.argv[4] == "embeddings" else main()

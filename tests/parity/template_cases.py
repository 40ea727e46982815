"""Conversations to render chat templates with: what people send, and odd orders that templates refuse."""

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city <now> & \"today\"; 天気",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Which city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": ["integer", "null"], "minimum": 1},
                "where": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            },
            "required": ["city"],
        },
    },
}
BARE_TOOL = {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}
RICH_TOOL = {
    "type": "function",
    "function": {
        "name": "divide",
        "description": "Divides",
        "strict": True,
        "parameters": {"type": "object", "properties": {"x": {"type": "number", "description": "a", "nullable": True},
                                                        "y": {"type": "boolean"}}, "required": ["x", "y"],
                       "additionalProperties": False},
        "return": {"type": "number", "description": "The quotient"},
    },
}


def system(text="You are terse."):
    return {"role": "system", "content": text}


def user(text="Hello, how are you?"):
    return {"role": "user", "content": text}


def assistant(text="Fine, thanks.", **more):
    return {"role": "assistant", "content": text, **more}


def call(name="get_weather", arguments=None, **more):
    function = {"name": name, "arguments": arguments if arguments is not None else {"city": "Paris", "days": 3}}
    return {"type": "function", "function": function, **more}


def tool(text='{"temp": 21.5}', **more):
    return {"role": "tool", "content": text, **more}


def conversations():
    yield "user", [user()]
    yield "system", [system(), user()]
    yield "turns", [system(), user(), assistant(), user("And now?")]
    yield "answered", [user(), assistant()]
    yield "long", [system(), user("1"), assistant("2"), user("3"), assistant("4"), user("5"), assistant("6")]
    yield "unicode", [system("Ünïcode ✓"), user("日本語 😀 \u00a0 e\u0301"), assistant("ДА ﬁ ß İ"), user("\u2028x\u200b")]
    yield "blank", [system(""), user(""), assistant(""), user(" ")]
    yield "spaces", [system("  padded  \n"), user("\n\n two \n"), assistant("\t tab\n"), user("x ")]
    yield "special", [system("<|im_end|>"), user("</s><|eot_id|>[/INST] {{ x }} {% if %}"), assistant("<think>a</think>b"), user("<tool_call>")]
    yield "thinking in text", [user("q"), assistant("<think>\nwhy\n</think>\n\nbecause"), user("r"), assistant("<think>again</think>done")]
    yield "unclosed thinking", [user("q"), assistant("no start</think>\nbecause"), user("r")]
    yield "reasoning", [user("q"), assistant("because", reasoning_content="so I think\n"), user("r"), assistant("done", reasoning_content="more")]
    yield "all reasoning names", [user("q"), assistant("because", reasoning_content="a", thinking="a", reasoning="a")]
    yield "tool call", [user("Weather?"), assistant(None, tool_calls=[call(id="call_ab1cd", index=0)]), tool(tool_call_id="call_ab1cd", name="get_weather")]
    yield "tool call answered", [system(), user("Weather?"), assistant("", tool_calls=[call(id="abcdef123")]), tool(tool_call_id="abcdef123", name="get_weather"), assistant("Sunny."), user("Thanks")]
    yield "two calls", [user("Both?"), assistant("Let me see.", tool_calls=[call(id="abcdef123"), call("now", {}, id="abcdef124")]),
                        tool(tool_call_id="abcdef123", name="get_weather"), tool("12:00", tool_call_id="abcdef124", name="now"), assistant("Done.")]
    yield "call without id", [user("Weather?"), assistant("", tool_calls=[call()]), tool()]
    yield "call in text", [user("Weather?"), assistant("", tool_calls=[call(arguments='{"city": "Paris"}', id="abcdef123")]), tool(tool_call_id="abcdef123", name="get_weather")]
    yield "call with reasoning", [user("W?"), assistant("Let me", reasoning_content="hmm", tool_calls=[call(id="abcdef123")]), tool(tool_call_id="abcdef123", name="get_weather"), assistant("So.", reasoning_content="ah")]
    yield "call with odd arguments", [user("W?"), assistant("", tool_calls=[call(arguments={"s": "a\"b\n<é>", "n": None, "t": True, "f": 1.5, "big": 1e22, "l": [1, "x", {"k": []}], "o": {"a": {}}}, id="abcdef123")]), tool(["a", 1], tool_call_id="abcdef123", name="get_weather")]
    yield "parts", [{"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image", "image": "x.png"}, {"type": "text", "text": " and?"}]}]
    yield "all parts", [{"role": "system", "content": [{"type": "text", "text": "Be kind."}]}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}, {"type": "video", "video": "v"}, {"type": "audio", "audio_url": "w"}]}, {"role": "assistant", "content": [{"type": "text", "text": "b"}]}, user("c")]
    yield "tool parts", [user("W?"), assistant("", tool_calls=[call(id="abcdef123")]), {"role": "tool", "content": [{"type": "text", "text": "21"}], "tool_call_id": "abcdef123", "name": "get_weather"}]
    # Orders that some templates refuse.
    yield "none", []
    yield "assistant first", [assistant(), user()]
    yield "only system", [system()]
    yield "two users", [user("a"), user("b")]
    yield "two assistants", [user("a"), assistant("b"), assistant("c")]
    yield "late system", [user("a"), system("s"), user("b")]
    yield "developer", [{"role": "developer", "content": "Dev says."}, user("a")]
    yield "unknown role", [user("a"), {"role": "critic", "content": "meh"}]
    yield "no role", [{"content": "who?"}]
    yield "no content", [{"role": "user"}]
    yield "none content", [user("a"), assistant(None)]
    yield "odd content", [user(7), assistant({"k": "v"}), user(["x", 2])]
    yield "odd role", [{"role": "USER ", "content": "a"}, {"role": "assistant", "content": "b"}]
    yield "named", [{"role": "user", "name": "bob", "content": "a"}, {"role": "assistant", "name": "al", "content": "b", "prefix": True}]
    yield "weights", [user("a"), assistant("b", weight=0, train=False), user("c"), assistant("d", weight=1)]
    yield "ipython", [user("a"), assistant("b"), {"role": "ipython", "content": {"out": [1, 2]}}, {"role": "function", "name": "f", "content": "r"}]


def variables():
    """(name, variables) pairs."""
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    plain = {**tokens, "tools": None, "documents": None, "add_generation_prompt": False}
    for name, messages in conversations():
        yield name, {**plain, "messages": messages}
        yield name + ", prompt", {**plain, "messages": messages, "add_generation_prompt": True}
        yield name + ", tools", {**plain, "messages": messages, "add_generation_prompt": True, "tools": [TOOL, BARE_TOOL, RICH_TOOL]}
    some = [system(), user("W?"), assistant("x", reasoning_content="r", tool_calls=[call(id="abcdef123")]), tool(tool_call_id="abcdef123", name="get_weather"), user("u")]
    switches = [
        {"enable_thinking": True}, {"enable_thinking": False}, {"thinking": True}, {"thinking": False}, {"tools": []},
        {"reasoning_effort": "high"}, {"reasoning_effort": "low", "model_identity": "You are X."}, {"date_string": "26 Jul 2024"}, {"builtin_tools": ["brave_search", "python"]},
        {"tools_in_user_message": False}, {"tools_in_user_message": True}, {"documents": [{"title": "T", "text": "body", "doc_id": 1}, {"title": "U", "text": "b2"}]},
        {"documents": []}, {"custom_tools": [TOOL]}, {"clear_thinking": False}, {"clear_thinking": True}, {"preserve_thinking": True}, {"keep_past_thinking": True},
        {"tool_choice": "required"}, {"response_format": {"type": "json_object"}}, {"xml_tools": [TOOL]}, {"citations": True}, {"bos_token": ""}, {"continue_final_message": True},
        {"controls": {"length": "long"}}, {"available_tools": [TOOL]}, {"thinking_budget": 512}, {"add_vision_id": True}, {"date": "2024-07-26"}, {"todays_date": "2024-07-26"},
        {"reasoning": "off"}, {"model_name": "M"}, {"enable_citations": True}, {"json_schema": {"a": 1}}, {"force_reasoning": True}, {"image_tokens": 3}, {"citation_options": "on", "safety_mode": "strict"},
    ]
    for switch in switches:
        for prompt in (False, True):
            given = {**plain, "messages": some, "tools": [TOOL], "add_generation_prompt": prompt, **switch}
            yield f"{switch}, {prompt}", given
            yield f"{switch}, {prompt}, no tools", {**given, "messages": [user("a"), assistant("b"), user("c")], "tools": switch.get("tools")}
    yield "bare", {"messages": [user()]}
    yield "bare prompt", {"messages": [user()], "add_generation_prompt": True}
    yield "nothing", {}

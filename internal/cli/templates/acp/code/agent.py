"""A small agent that implements the Agent Client Protocol.

Each line on standard input and output is a JSON-RPC message. The agent answers
a prompt with the files of its working directory, and writes a note. It stores
the prompts of a conversation in the home folder, so that a later run can
continue it.
"""

import json
import os
import pathlib
import sys
import uuid

sessions = {}  # session ID -> {"cwd": working directory, "prompts": earlier prompts}


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session, **fields):
    send({"method": "session/update", "params": {"sessionId": session, "update": fields}})


def say(session, text):
    update(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def store(session):
    """Returns the file that contains the prompts of a session."""
    return pathlib.Path.home() / "conversations" / f"{session}.json"


def initialize(_):
    return {
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": True},
        "agentInfo": {"name": "AGENT_NAME", "version": "1"},
    }


def new_session(params):
    session = uuid.uuid4().hex
    sessions[session] = {"cwd": params["cwd"], "prompts": []}
    return {"sessionId": session}


def load_session(params):
    session = params["sessionId"]
    prompts = json.loads(store(session).read_text("utf-8"))
    sessions[session] = {"cwd": params["cwd"], "prompts": prompts}
    for text in prompts:
        update(session, sessionUpdate="user_message_chunk", content={"type": "text", "text": text})
    return {}


def prompt(params):
    session = params["sessionId"]
    state = sessions[session]
    state["prompts"].append("".join(block.get("text", "") for block in params["prompt"]))
    number = len(state["prompts"])

    # Each step is a tool call, so that a user can follow the work. An agent
    # with a model would let the model choose the steps.
    call = {"toolCallId": f"list-{number}", "title": "List files", "kind": "read"}
    update(session, sessionUpdate="tool_call", status="in_progress", **call)
    files = sorted(os.listdir(state["cwd"]))
    output = {"type": "content", "content": {"type": "text", "text": "\n".join(files)}}
    update(session, sessionUpdate="tool_call_update", status="completed", toolCallId=call["toolCallId"], content=[output])

    note = pathlib.Path(state["cwd"]) / "notes.md"
    with note.open("a", encoding="utf-8") as file:
        file.write(f"- {state['prompts'][-1].strip()}\n")
    store(session).parent.mkdir(parents=True, exist_ok=True)
    store(session).write_text(json.dumps(state["prompts"]), "utf-8")
    say(session, f"This is prompt {number}. Files found: {len(files)}. I wrote notes.md.")
    return {"stopReason": "end_turn"}


METHODS = {
    "initialize": initialize,
    "session/new": new_session,
    "session/load": load_session,
    "session/prompt": prompt,
}


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification, such as session/cancel: prompts end at once
        method = METHODS.get(message.get("method"))
        if method is None:
            send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            continue
        try:
            send({"id": message["id"], "result": method(message.get("params", {}))})
        except Exception as error:  # reported to the client; the agent continues
            send({"id": message["id"], "error": {"code": -32603, "message": f"{type(error).__name__}: {error}"}})


if __name__ == "__main__":
    main()

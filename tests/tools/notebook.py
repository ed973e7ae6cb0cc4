"""What AgentScope's own notebook does, for the test beside this file. Reads a state from standard input, prints one line of JSON.
With `steps`, each line is a call on a state, and is answered by a line."""

import asyncio
import json
import sys

from agentscope.plan import PlanNotebook, SubTask
from agentscope.tool import Toolkit


def subtask(name):
    return SubTask(name=name, description=f"do {name}", expected_outcome=f"{name} done")


async def stages():
    """The states of a notebook on its way, each with the hint for it."""
    notebook = PlanNotebook()
    seen = []

    async def look():
        hint = await notebook.get_current_hint()
        state = json.loads(json.dumps(notebook.state_dict()))
        seen.append({"state": state, "hint": hint.content, "name": hint.name, "role": hint.role})

    await look()
    await notebook.create_plan("P", "description", "outcome", [subtask(name) for name in "abc"])
    await look()
    await notebook.update_subtask_state(0, "in_progress")
    await look()
    await notebook.finish_subtask(0, "a is done")
    await notebook.update_subtask_state(1, "todo")
    await look()
    await notebook.update_subtask_state(1, "abandoned")
    await notebook.update_subtask_state(2, "in_progress")
    await notebook.finish_subtask(2, "c is done")
    await look()
    markdown = notebook.current_plan.to_markdown(detailed=True)
    await notebook.finish_plan("done", "all well")
    await notebook.create_plan("Q", "description", "outcome", [subtask(name) for name in "de"])
    await look()
    return seen, markdown


async def step(given):
    """One call on a notebook in a given state: what it says, the state after it, and the hint."""
    notebook = PlanNotebook()
    notebook.load_state_dict(given["state"])
    try:
        said = (await getattr(notebook, given["tool"])(**given["arguments"])).content[0]["text"]
    except Exception as error:  # The agent's framework turns it into a text.
        said = f"raised: {error}"
    hint = await notebook.get_current_hint()
    return {"said": said, "state": notebook.state_dict(), "hint": hint.content}


async def main():
    if sys.argv[1:] == ["steps"]:
        for line in sys.stdin:
            print(json.dumps(await step(json.loads(line))), flush=True)
        return
    given = json.load(sys.stdin)
    seen, markdown = await stages()
    notebook = PlanNotebook()
    tools = Toolkit()
    for tool in notebook.list_tools():
        tools.register_tool_function(tool)
    notebook.load_state_dict(given)
    loaded = json.loads(json.dumps(notebook.state_dict()))
    finished = await notebook.finish_subtask(1, "on we go")
    print(json.dumps({
        "stages": seen,
        "markdown": markdown,
        "lines": [
            SubTask(name="n", description="", expected_outcome="", state=state).to_oneline_markdown()
            for state in ("todo", "in_progress", "done", "abandoned")
        ],
        "tools": [schema["function"] for schema in tools.get_json_schemas()],
        "loaded": loaded,
        "finished": finished.content[0]["text"],
    }))


asyncio.run(main())

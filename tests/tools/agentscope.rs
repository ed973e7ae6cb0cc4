//! The notebook compared with AgentScope's own: AgentScope's states are loaded here and ours there, and tools, hints and
//! Markdown agree. Needs a Python that has `agentscope` 1.0 (`PLAN_AGENT_PYTHON` names it, else `python3`).

use std::io::Write as _;
use std::process::{Command, Stdio};

use plan_agent::tools::Toolbox;
use plan_agent::tools::notebook::{PlanEnd, PlanNotebook, SubTask, SubTaskState};
use serde_json::Value;

use crate::common::env::skip;

/// Returns the command that runs the script beside this file with AgentScope.
///
/// # Errors
/// Why that cannot be done here.
pub fn script() -> Result<Command, String> {
    let python = std::env::var("PLAN_AGENT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_it = Command::new(&python)
        .args(["-c", "import agentscope.plan"])
        .output()
        .map_err(|error| format!("`{python}` does not start: {error}"))?;
    if !has_it.status.success() {
        return Err(format!("`{python}` cannot import agentscope.plan"));
    }
    let mut command = Command::new(python);
    command.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/tools/notebook.py"
    ));
    Ok(command)
}

/// Has AgentScope load a state, and returns its description of that state and of its own.
fn agentscope(state: &Value) -> Result<Value, String> {
    let mut child = script()?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(state.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().next_back().unwrap_or_default();
    Ok(serde_json::from_str(line).unwrap())
}

async fn notebook() -> PlanNotebook {
    PlanNotebook::new(Toolbox::in_memory().await.unwrap())
}

/// Makes a notebook with a history, and a plan whose second subtask is in progress.
async fn ours() -> PlanNotebook {
    let notebook = notebook().await;
    let subtasks = |names: &[&str]| {
        let subtask = |name: &&str| SubTask::new(name, "describe", "expect");
        names.iter().map(subtask).collect()
    };
    let made = notebook.create_plan("Before", "d", "e", subtasks(&["x", "y"]));
    made.await.unwrap();
    let end = notebook.finish_plan(PlanEnd::Abandoned, "something else is wanted");
    end.await.unwrap();
    let made = notebook.create_plan("Now", "d", "e", subtasks(&["a", "b", "c"]));
    made.await.unwrap();
    let begun = notebook.update_subtask_state(0, SubTaskState::InProgress);
    begun.await.unwrap();
    notebook.finish_subtask(0, "found it").await.unwrap();
    notebook
}

#[tokio::test]
async fn state_exchanges_with_agentscope_both_ways() {
    let ours = ours().await;
    let state = ours.state_dict().await.unwrap();
    let theirs = match agentscope(&state) {
        Ok(theirs) => theirs,
        Err(why) => return skip(&why),
    };
    assert_eq!(theirs["loaded"], state);
    let finished = theirs["finished"].as_str().unwrap();
    assert!(
        finished.contains("next subtask") && finished.contains('c'),
        "{finished}"
    );

    let names = |tools: &[Value]| -> Vec<String> {
        let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        tools.iter().map(name).collect()
    };
    let tools = theirs["tools"].as_array().unwrap();
    let own: Vec<&str> = ours.list_tools().iter().map(|tool| tool.name).collect();
    assert_eq!(names(tools), own);
    for (theirs, tool) in tools.iter().zip(ours.list_tools()) {
        let schema = tool.schema();
        let parameters = &theirs["parameters"];
        assert_eq!(
            schema.get("required"),
            parameters.get("required"),
            "{}",
            tool.name
        );
        for (name, property) in parameters["properties"].as_object().unwrap() {
            let own = &schema["properties"][name];
            assert_eq!(
                own.get("enum"),
                property.get("enum"),
                "{} {name}",
                tool.name
            );
            if let Some(kind) = property.get("type") {
                assert_eq!(own["type"], *kind, "{} {name}", tool.name);
            }
        }
    }

    // The required next call of each hint, in AgentScope's text and in ours.
    let stages = [
        &["create_plan"][..],
        &["subtask_idx=0", "in_progress"],
        &["index 0", "'a'", "finish_subtask"],
        &["update_subtask_state", "1", "done"],
        &["finish_plan"],
        &["subtask_idx=0", "in_progress"],
    ];
    let seen = theirs["stages"].as_array().unwrap();
    assert_eq!(seen.len(), stages.len());
    for (stage, parts) in seen.iter().zip(stages) {
        let here = notebook().await;
        here.load_state_dict(&stage["state"]).await.unwrap();
        assert_eq!(here.state_dict().await.unwrap(), stage["state"]);
        let hint = here.get_current_hint().await.unwrap().unwrap();
        assert_eq!(
            (stage["name"].as_str(), stage["role"].as_str()),
            (Some(&*hint.name), Some(&*hint.role))
        );
        let told = stage["hint"].as_str().unwrap();
        for part in parts {
            assert!(told.contains(part), "theirs lacks {part}: {told}");
            assert!(
                hint.content.contains(part),
                "ours lacks {part}: {}",
                hint.content
            );
        }
        if let Some(plan) = here.current_plan().await.unwrap() {
            let markdown = plan.to_markdown(false);
            assert!(told.contains(&markdown), "{markdown}\n\n{told}");
        }
    }
    let states = ["todo", "in_progress", "done", "abandoned"];
    let lines = states.map(|state| {
        let state = serde_json::from_value(state.into()).unwrap();
        let subtask = SubTask::new("n", "", "");
        SubTask { state, ..subtask }.to_oneline_markdown()
    });
    assert_eq!(Value::from(lines.to_vec()), theirs["lines"]);
    let here = notebook().await;
    here.load_state_dict(&seen[4]["state"]).await.unwrap();
    let plan = here.current_plan().await.unwrap().unwrap();
    assert_eq!(plan.to_markdown(true), theirs["markdown"].as_str().unwrap());
}

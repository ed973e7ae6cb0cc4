//! What a person does to a plan in another folder than its own, and what is said there.

use super::*;

#[test]
fn plan_of_another_folder_is_aborted_and_who_does_the_rest_is_said() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    for (command, at_work) in [("abort", true), ("abort", false), ("answer", true)] {
        let _daemon = here.scene.leave("run --plan one.md");
        let plan = plan_id(&here.scene);
        let args = match command {
            "abort" => {
                here.scene.take_any();
                ["abort", &plan]
            }
            _ => {
                for number in 1..=3 {
                    let command = here.scene.await_attempt(number);
                    here.scene.claim(&command.id);
                    here.scene.fail(&command, "it does not work");
                }
                here.scene.await_questions(1);
                ["answer", "abort"]
            }
        };
        let left = match at_work {
            true => "its daemon at ".to_owned(),
            false => {
                here.scene.works("stop");
                format!("where `plan-agent resume {plan}` asks agents at work to stop")
            }
        };
        has(
            there.scene.works(args),
            [format!("plan {plan} has ended for good; "), left],
        );
        here.scene.await_status("aborted");
        if !at_work {
            here.scene.exits(3, ["resume", &plan]);
        }
        here.scene.await_end();
    }
}

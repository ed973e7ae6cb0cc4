//! Agents on another machine: a relay there claims commands from the server of the plans, and hands back the work.

use super::many_machines::Machine;
use super::*;
use crate::common::git::git;

/// Two tasks, one after the other; the second one needs what the first one made.
const SHELL: &str = "\
---
name: Two files
goal: Two files
---

## First

- produces: one.txt

```sh
echo one > one.txt
```

## Second

- after: 1
- produces: two.txt

```sh
cat one.txt one.txt > two.txt
```
";

#[test]
fn relay_does_the_work_in_its_own_clone() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    here.scene.write("shell.md", SHELL);
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay --agent shell");
    here.scene
        .works("run --plan shell.md --agent relay --no-input");
    let plan = plan_id(&here.scene);
    assert_eq!(
        here.results(&plan),
        ".gitignore\na.txt\nb.txt\none.txt\ntwo.txt\n"
    );
    assert_eq!(
        git(
            &here.project,
            format!("show plan-agent/{plan}:two.txt").as_str()
        ),
        "one\none\n"
    );
}

//! Leases: of several daemons that share a database, one carries a plan out.

use std::future::pending;

use super::*;

async fn renames(store: &Store, id: &PlanId, name: &str) -> Result<(), StoreError> {
    let name = name.to_owned();
    let rename = move |draft: &mut Draft<'_>| {
        draft.change_head(|head| head.name = name);
        Ok(())
    };
    store.change(id, "test", "renamed", rename).await
}

async fn name(store: &Store, id: &PlanId) -> String {
    let name = |plan: &Plan, _| plan.head().name.clone();
    store.read(id, name).await.unwrap()
}

fn not_held(made: Result<(), StoreError>) -> bool {
    matches!(made, Err(StoreError::NotHeld(of)) if of == plan())
}

#[test]
fn one_of_two_daemons_has_the_lease() {
    block_on(on_every_shared_store(async |given| {
        let [here, there] = [given.open().await, given.open().await];
        make(&here, "aaaaaaaa").await;
        let first = here.lease(&plan(), "here").await.unwrap();
        match there.lease(&plan(), "there").await {
            Err(StoreError::Held { holder, .. }) => assert_eq!(holder, "here"),
            other => panic!("{other:?}"),
        }
        renames(&first, &plan(), "one").await.unwrap();
        assert!(first.holds());
        // A person's change needs no lease.
        renames(&there, &plan(), "two").await.unwrap();
        first.release().await;
        assert!(!first.holds());
        let second = there.lease(&plan(), "there").await.unwrap();
        assert!(not_held(renames(&first, &plan(), "three").await));
        renames(&second, &plan(), "four").await.unwrap();
        assert_eq!(name(&here, &plan()).await, "four");
    }));
}

#[test]
fn what_an_earlier_holder_writes_is_refused() {
    block_on(on_every_shared_store(async |given| {
        let [here, there] = [given.open().await, given.open().await];
        make(&here, "aaaaaaaa").await;
        make(&here, "own").await;
        let first = here.lease(&plan(), "here").await.unwrap();
        given.sql("UPDATE plans SET held_until = 1").await;
        let second = there.lease(&plan(), "there").await.unwrap();
        let before = here.read(&plan(), |_, seq| seq).await.unwrap();
        // Also to plans that it works with beside, and among others that are committed together.
        let (id, own) = (plan(), PlanId::new("own"));
        let (stale, beside, good) = tokio::join!(
            renames(&first, &id, "stale"),
            renames(&first, &own, "stale"),
            renames(&second, &id, "good"),
        );
        assert!(not_held(stale) && not_held(beside));
        good.unwrap();
        assert_eq!(name(&here, &plan()).await, "good");
        assert_eq!(name(&here, &own).await, "Count words");
        assert_eq!(here.read(&plan(), |_, seq| seq).await.unwrap(), before + 1);
    }));
}

#[test]
fn daemon_of_the_same_name_goes_on_at_once() {
    block_on(on_every_shared_store(async |given| {
        let [before, after] = [given.open().await, given.open().await];
        make(&before, "aaaaaaaa").await;
        let first = before.lease(&plan(), "here").await.unwrap();
        let second = after.lease(&plan(), "here").await.unwrap();
        assert!(not_held(renames(&first, &plan(), "stale").await));
        renames(&second, &plan(), "good").await.unwrap();
    }));
}

#[test]
fn lease_is_taken_again_unless_another_daemon_goes_on() {
    block_on(on_every_shared_store(async |given| {
        let [here, there] = [given.open().await, given.open().await];
        make(&here, "aaaaaaaa").await;
        let first = here.lease(&plan(), "here").await.unwrap();
        given.sql("UPDATE plans SET held_until = 1").await;
        let second = there.lease(&plan(), "there").await.unwrap();
        assert!(not_held(renames(&first, &plan(), "stale").await));
        let state = async || first.hold_again("here").await.unwrap();
        assert_eq!(state().await, LeaseState::Elsewhere);
        // It could not go on with the plan.
        second.release_to_others().await;
        assert_eq!(state().await, LeaseState::TakenAgain);
        assert_eq!(state().await, LeaseState::Held);
        renames(&first, &plan(), "good").await.unwrap();
        // A later daemon of the same folder is not driven out.
        let _later = here.lease(&plan(), "here").await.unwrap();
        assert!(not_held(renames(&first, &plan(), "stale").await));
        assert_eq!(state().await, LeaseState::Elsewhere);
    }));
}

#[test]
fn there_is_no_lease_of_no_plan() {
    block_on(on_every_shared_store(async |given| {
        let store = given.open().await;
        let none = store.lease(&plan(), "here").await;
        assert!(matches!(none, Err(StoreError::UnknownPlan(_))), "{none:?}");
    }));
}

#[test]
fn work_ends_with_the_lease_under_which_it_is_done() {
    block_on(on_every_shared_store(async |given| {
        let [here, there] = [given.open().await, given.open().await];
        make(&here, "aaaaaaaa").await;
        let first = here.lease(&plan(), "here").await.unwrap();
        // What is done within the lease ends as it does.
        first.while_held(async {}, pending()).await;
        let held = first.clone();
        let endless = tokio::spawn(async move { held.while_held(pending(), async {}).await });
        given.sql("UPDATE plans SET held_until = 1").await;
        let _second = there.lease(&plan(), "there").await.unwrap();
        // When it is renewed next, it is found to be lost.
        tokio::time::timeout(std::time::Duration::from_secs(60), endless)
            .await
            .unwrap()
            .unwrap();
        assert!(!first.holds());
    }));
}

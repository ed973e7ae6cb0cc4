//! Scratch.
use std::path::PathBuf;
use crate::common::vendor::Vendor;

#[test]
#[ignore]
fn serve() {
    let file = PathBuf::from(std::env::var("MAKE").unwrap());
    let vendor = Vendor::making(&file, "made by the model");
    std::fs::write("/tmp/clis-vendor-url", vendor.url()).unwrap();
    let mut n = 0;
    loop {
        std::thread::sleep(std::time::Duration::from_millis(300));
        for heard in &vendor.heard()[n..] {
            n += 1;
            println!("{:?} tools {:?} turns {}", "", heard.tools, heard.turns.len());
            for turn in &heard.turns { let t = format!("{turn:?}"); println!("   {}", t.chars().take(150).collect::<String>()); }
        }
    }
}

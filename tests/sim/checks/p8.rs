//! P8: nothing unverified enters a store. Every version that lies on a disk is one that a client
//! signed, with its value, stamped by members.

use tanist::core::object::{Key, ObjectId};
use tanist::core::version::Version;
use tanist::engine::rows;
use tanist::engine::store::View as _;

use crate::world::World;

/// Looks through every store.
pub fn of_stores(world: &World) -> Result<(), String> {
    for (index, node) in world.nodes.iter().enumerate() {
        for (key, row) in node.disk.all_keys(world.founding.namespace) {
            for version in row.siblings.held() {
                check(world, index, &key, version)
                    .map_err(|why| format!("node {index} holds {:?} of {key}: {why}", version.id()))?;
            }
        }
    }
    Ok(())
}

fn check(world: &World, node: usize, key: &Key, version: &Version) -> Result<(), String> {
    let cluster = world.founding.cluster;
    let namespace = world.founding.namespace;
    let Some(prepared) = world.history.writes.get(&version.id()) else {
        return Err("no client wrote it".to_owned());
    };
    if prepared.key() != key || version.write() != prepared.signed.write() {
        return Err("it is not what the client wrote".to_owned());
    }
    let author = version.write().author;
    if author != world.founding.client.public()
        || !world.cache.verifies(version.signed.proof(), &author, cluster, version.id().into())
    {
        return Err("its author did not sign it".to_owned());
    }
    if version.stamps.is_empty() {
        return Err("it has no stamp".to_owned());
    }
    let object = ObjectId::new(namespace, key);
    for signed in version.stamps.iter() {
        let stamp = signed.stamp();
        if stamp.object != object || stamp.write != version.id() || stamp.cluster != cluster {
            return Err("a stamp belongs to something else".to_owned());
        }
        let Some(member) = world.config.member_at(stamp.actor, stamp.config_epoch) else {
            return Err("a stamp's actor was no member".to_owned());
        };
        if !signed
            .proof()
            .is_some_and(|proof| world.cache.verifies(proof, &member.key, cluster, signed.hash()))
        {
            return Err("a stamp's node did not sign it".to_owned());
        }
    }
    let value = world.nodes[node].disk.rows.get(&rows::value(object, version.id())).expect("memory reads");
    // What rotted is not served: it is read from another replica.
    let Ok(value) = value.map(|stored| rows::decode_value(&stored)).transpose() else { return Ok(()) };
    let value = value.unwrap_or_default();
    if version.write().body.matches(&value) { Ok(()) } else { Err("its value is another one".to_owned()) }
}

//! Changes members of objects.

use serde_json::{Map, Value};

/// Sets the member at a path. Members on the way that are missing, or are no maps, become maps.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut place = object;
    for key in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[*key];
    }
    *place = value;
}

/// Removes the member at a path, if there is one. The others keep their order.
pub fn remove(object: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let parent = parents
        .iter()
        .try_fold(object, |place, key| place.get_mut(*key));
    if let Some(Value::Object(map)) = parent {
        map.shift_remove(*last);
    }
}

/// Sets the member at a path, or removes it if the value is null.
pub fn set_or_remove(object: &mut Value, path: &[&str], value: &Value) {
    if value.is_null() {
        remove(object, path);
    } else {
        set(object, path, value.clone());
    }
}

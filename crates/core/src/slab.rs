// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! A table of objects whose keys are never mistaken for a later object in the same place.

use alloc::vec::Vec;

use crate::{Error, Result};

/// Key into a [`Slab`]: a place and the number of objects that have lived there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    pub(crate) index: u32,
    generation: u32,
}

#[derive(Debug)]
enum Place<T> {
    Taken(T),
    Free { next: Option<u32> },
}

impl Key {
    /// Index and generation in one number.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Objects by key; growing is fallible, since in a kernel an infallible allocation is a crash.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<(u32, Place<T>)>,
    free: Option<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: None, len: 0 }
    }
}

impl<T> Slab<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts `value` in; `what` names it in the error when there is no memory.
    pub(crate) fn insert(&mut self, value: T, what: &'static str) -> Result<Key> {
        let index = match self.free {
            Some(index) => index,
            None => {
                self.places.try_reserve(1).map_err(|_| Error::NoMemory(what))?;
                let index = u32::try_from(self.places.len()).map_err(|_| Error::NoMemory(what))?;
                self.places.push((0, Place::Free { next: None }));
                index
            }
        };
        let Some((generation, place)) = self.places.get_mut(index as usize) else {
            return Err(Error::NoMemory(what));
        };
        if let Place::Free { next } = place {
            self.free = *next;
        }
        *place = Place::Taken(value);
        self.len += 1;
        Ok(Key { index, generation: *generation })
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.places.get(key.index as usize) {
            Some((generation, Place::Taken(value))) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.places.get_mut(key.index as usize) {
            Some((generation, Place::Taken(value))) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let (generation, place) = self.places.get_mut(key.index as usize)?;
        *generation = generation.wrapping_add(1);
        let Place::Taken(value) = core::mem::replace(place, Place::Free { next: self.free }) else {
            return None;
        };
        self.free = Some(key.index);
        self.len -= 1;
        Some(value)
    }

    /// The key of the object at `index`, if one lives there.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        match self.places.get(index as usize) {
            Some((generation, Place::Taken(_))) => Some(Key { index, generation: *generation }),
            _ => None,
        }
    }

    /// The number of places, taken or free: keys have a smaller index.
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        (0..self.places()).filter_map(|index| self.key_at(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, option, prelude::*};

    #[test]
    fn a_key_does_not_outlive_its_object() {
        let mut slab = Slab::default();
        let a = slab.insert('a', "letter").unwrap();
        let b = slab.insert('b', "letter").unwrap();
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        let c = slab.insert('c', "letter").unwrap();
        assert_eq!(c.index, a.index, "places are used again");
        assert_eq!((slab.get(a), slab.get(b), slab.get(c)), (None, Some(&'b'), Some(&'c')));
        assert_eq!(slab.keys().collect::<Vec<_>>(), [c, b]);
    }

    proptest! {
        #[test]
        fn it_does_what_a_map_does(actions in vec(option::of(any::<usize>()), 0..100)) {
            let mut slab = Slab::default();
            let mut living: Vec<(Key, usize)> = Vec::new();
            let mut gone: Vec<Key> = Vec::new();
            for (value, remove) in actions.into_iter().enumerate() {
                match remove {
                    Some(which) if !living.is_empty() => {
                        let (key, value) = living.swap_remove(which % living.len());
                        prop_assert_eq!(slab.remove(key), Some(value));
                        gone.push(key);
                    }
                    _ => {
                        let key = slab.insert(value, "a number").unwrap();
                        prop_assert!(!gone.contains(&key));
                        living.push((key, value));
                    }
                }
                for &(key, value) in &living {
                    prop_assert_eq!((slab.get(key), slab.key_at(key.index)), (Some(&value), Some(key)));
                }
                for &key in &gone {
                    prop_assert!(slab.get(key).is_none() && slab.get_mut(key).is_none());
                    prop_assert_eq!(slab.remove(key), None);
                }
                prop_assert_eq!(slab.len(), living.len());
                prop_assert!(slab.places() as usize <= living.len() + gone.len());
                let mut keys: Vec<_> = living.iter().map(|&(key, _)| key).collect();
                keys.sort_unstable();
                prop_assert_eq!(slab.keys().collect::<Vec<_>>(), keys);
            }
        }
    }
}

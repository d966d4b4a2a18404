//! Short stories made from a grammar of our own: a text to learn from that belongs to nobody else.
//!
//! A story keeps its people, their pronouns, the thing they look for, and its numbers to the end, so that there is
//! something to learn at every distance: spelling, agreement of subject and verb, punctuation, who speaks, and sums.

mod words;

use words::{
    ANIMALS, FEELINGS, HABITS, HANDLINGS, JOBS, KINDS, LESSONS, NUMBERS, PEOPLE, PLACES, Person, SPOTS, THINGS, TIMES,
    Thing, WAYS, WEATHER,
};

use super::permutation::{Random, key};

/// Seed of the text that ships with the repository.
pub const STORIES_SEED: u64 = 6;

/// Least size of the text that ships with the repository.
pub const STORIES_BYTES: usize = 400_000;

/// Stories of at least this many bytes, the same for the same seed.
pub fn stories(seed: u64, bytes: usize) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < bytes {
        if number > 0 {
            text.push('\n');
        }
        let mut story = Story::new(Random::new(key(&[seed, number])));
        story.tell();
        text.push_str(&story.text);
        number += 1;
    }
    text
}

/// A story while it is told.
struct Story {
    random: Random,
    text: String,
    hero: Person,
    friend: Person,
    job: &'static str,
    treasure: Thing,
    kind: &'static str,
    animal: Thing,
}

impl Story {
    fn new(mut random: Random) -> Story {
        let hero = any(&mut random, PEOPLE);
        let mut friend = any(&mut random, PEOPLE);
        while friend.name == hero.name {
            friend = any(&mut random, PEOPLE);
        }
        let job = any(&mut random, JOBS);
        let (treasure, kind) = (any(&mut random, THINGS), any(&mut random, KINDS));
        let animal = any(&mut random, ANIMALS);
        Story { random, text: String::new(), hero, friend, job, treasure, kind, animal }
    }

    fn any<T: Copy>(&mut self, items: &[T]) -> T {
        any(&mut self.random, items)
    }

    /// A line of its own.
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn tell(&mut self) {
        let (hero, kind, treasure) = (self.hero, self.kind, self.treasure.one);
        self.line(&format!("{} and the {kind} {treasure}", hero.name));
        let place = self.any(PLACES);
        let job = self.job;
        let opening = format!("{} was {} in {}. ", hero.name, with_article(job), with_article(place));
        let habit = self.any(HABITS);
        let way = self.any(WAYS);
        let animal = self.animal.one;
        let subject = capital(hero.subject);
        let weather = self.any(WEATHER);
        self.line(&format!(
            "{opening}{subject} had {}, and the {animal} {} {way}. {weather}",
            with_article(animal),
            habit.past
        ));
        let mut scenes: Vec<fn(&mut Story)> =
            vec![Story::search, Story::sum, Story::difference, Story::talk, Story::habits, Story::exchange];
        for _ in 0..2 + self.random.below(3) {
            let scene = self.random.below(scenes.len() as u64) as usize;
            scenes.remove(scene)(self);
        }
        self.end();
    }

    fn search(&mut self) {
        let (hero, friend, kind, treasure) = (self.hero, self.friend, self.kind, self.treasure.one);
        let (time, feeling) = (self.any(TIMES), self.any(FEELINGS));
        let (first, second) = self.two(SPOTS);
        self.line(&format!(
            "{time} the {kind} {treasure} was gone. {} was {feeling}. {} looked {first}, but it was not there. \
             Then {} looked {second}, and there it was.",
            hero.name,
            capital(hero.subject),
            friend.name,
        ));
    }

    fn sum(&mut self) {
        let (hero, friend) = (self.hero, self.friend);
        let (a, b) = (1 + self.random.below(10) as usize, 1 + self.random.below(10) as usize);
        let (time, thing) = (self.any(TIMES), self.any(THINGS));
        self.line(&format!(
            "{time} {} had {} and {} had {}. Together they had {}.",
            hero.name,
            counted(a, thing),
            friend.name,
            counted(b, thing),
            counted(a + b, thing),
        ));
    }

    fn difference(&mut self) {
        let (hero, friend) = (self.hero, self.friend);
        let had = 2 + self.random.below(18) as usize;
        let gave = 1 + self.random.below(had as u64 - 1) as usize;
        let thing = self.any(THINGS);
        self.line(&format!(
            "\"I have {},\" said {}. {} gave {} to {}. \"How many are left?\" asked {}. \"There {} {}.\"",
            counted(had, thing),
            hero.name,
            capital(hero.subject),
            NUMBERS.get(gave).copied().unwrap_or("some"),
            friend.name,
            friend.name,
            if had - gave == 1 { "is" } else { "are" },
            counted(had - gave, thing),
        ));
    }

    fn talk(&mut self) {
        let (hero, friend, kind, treasure) = (self.hero, self.friend, self.kind, self.treasure.one);
        let (spot, feeling, way) = (self.any(SPOTS), self.any(FEELINGS), self.any(WAYS));
        let habit = self.any(HABITS);
        let mut others = self.any(ANIMALS);
        while others.one == self.animal.one {
            others = self.any(ANIMALS);
        }
        self.line(&format!("\"Where is the {kind} {treasure}?\" asked {}.", friend.name));
        self.line(&format!("\"It is {spot},\" said {}. \"Why do you ask?\"", hero.name));
        self.line(&format!(
            "\"Because I am {feeling}. The {} {} {way}, but {} never {}!\"",
            others.many,
            habit.many,
            with_article(self.animal.one),
            habit.one,
        ));
        self.line(&format!("{} laughed, and {} laughed with {}.", hero.name, friend.name, hero.object));
    }

    fn habits(&mut self) {
        let (hero, friend) = (self.hero, self.friend);
        let (first, second) = self.two(HABITS);
        let handling = self.any(HANDLINGS);
        let (thing, kind, way) = (self.any(THINGS), self.any(KINDS), self.any(WAYS));
        self.line(&format!(
            "Every day {} {} and {} {}. When the {} {}, {} {} {} {way}.",
            hero.name,
            first.past,
            friend.name,
            second.past,
            self.animal.many,
            first.past,
            hero.subject,
            handling.past,
            with_article(&format!("{kind} {}", thing.one)),
        ));
    }

    fn exchange(&mut self) {
        let (hero, friend, kind, treasure) = (self.hero, self.friend, self.kind, self.treasure.one);
        let (time, thing, handling) = (self.any(TIMES), self.any(THINGS), self.any(HANDLINGS));
        let count = 2 + self.random.below(8) as usize;
        let feeling = self.any(FEELINGS);
        self.line(&format!(
            "{time} {} {} {}. \"Will you give me your {kind} {treasure} for {}?\" {} asked. {} was {feeling}. \"No,\" {} said, \
             \"the {treasure} was my mother's.\"",
            friend.name,
            handling.past,
            counted(count, thing),
            counted(count, thing),
            friend.subject,
            hero.name,
            hero.subject,
        ));
    }

    fn end(&mut self) {
        let (hero, friend, kind, treasure, job) = (self.hero, self.friend, self.kind, self.treasure.one, self.job);
        let feeling = self.any(FEELINGS);
        let lesson = self.any(LESSONS);
        self.line(&format!(
            "In the end {} the {job} still had {} {kind} {treasure} and {} {}, and {} was {feeling}. {lesson}",
            hero.name, hero.possessive, hero.possessive, self.animal.one, friend.name,
        ));
    }

    /// Two different ones.
    fn two<T: Copy>(&mut self, items: &[T]) -> (T, T) {
        let count = items.len() as u64;
        let first = self.random.below(count);
        let second = (first + 1 + self.random.below(count - 1)) % count;
        (items[first as usize], items[second as usize])
    }
}

/// One of the items of a table, none of which is empty.
fn any<T: Copy>(random: &mut Random, items: &[T]) -> T {
    *random.pick(items).unwrap_or(&items[0])
}

fn with_article(noun: &str) -> String {
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn counted(count: usize, thing: Thing) -> String {
    let noun = if count == 1 { thing.one } else { thing.many };
    match NUMBERS.get(count) {
        Some(number) => format!("{number} {noun}"),
        None => format!("{count} {noun}"),
    }
}

#[cfg(test)]
mod tests {
    use super::words::thing;
    use super::*;

    #[test]
    fn stories_are_whole_and_depend_on_the_seed() {
        let text = stories(1, 10_000);
        assert!(text.len() >= 10_000 && text.ends_with(".\n") && text.is_ascii());
        assert_eq!(text, stories(1, 10_000));
        assert_ne!(text, stories(2, 10_000));
        assert!(stories(1, 20_000).starts_with(&text));
    }

    #[test]
    fn articles_and_numbers_agree() {
        assert_eq!((with_article("owl"), with_article("red owl")), ("an owl".into(), "a red owl".into()));
        assert_eq!(
            (counted(1, thing("leaf", "leaves")), counted(2, thing("leaf", "leaves"))),
            ("one leaf".into(), "two leaves".into())
        );
        let text = stories(3, 100_000);
        for wrong in [" a apple", " an red", "one leaves", "two leaf ", " a owl", " a ox", "  "] {
            assert!(!text.contains(wrong), "{wrong}");
        }
    }
}

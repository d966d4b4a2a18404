//! The words of the stories.

/// Someone in a story.
#[derive(Clone, Copy)]
pub(super) struct Person {
    pub(super) name: &'static str,
    pub(super) subject: &'static str,
    pub(super) object: &'static str,
    pub(super) possessive: &'static str,
}

/// Something that can be counted.
#[derive(Clone, Copy)]
pub(super) struct Thing {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
}

/// Something one does: now with one or several subjects, and in the past.
#[derive(Clone, Copy)]
pub(super) struct Action {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    pub(super) past: &'static str,
}

pub(super) const fn she(name: &'static str) -> Person {
    Person { name, subject: "she", object: "her", possessive: "her" }
}

pub(super) const fn he(name: &'static str) -> Person {
    Person { name, subject: "he", object: "him", possessive: "his" }
}

pub(super) const fn thing(one: &'static str, many: &'static str) -> Thing {
    Thing { one, many }
}

pub(super) const fn action(one: &'static str, many: &'static str, past: &'static str) -> Action {
    Action { one, many, past }
}

pub(super) const PEOPLE: &[Person] = &[
    she("Anna"),
    she("Berta"),
    she("Clara"),
    she("Dora"),
    she("Edith"),
    she("Frieda"),
    she("Greta"),
    she("Hanna"),
    she("Ida"),
    she("Julia"),
    she("Lena"),
    she("Mara"),
    she("Nora"),
    she("Olga"),
    she("Paula"),
    she("Rosa"),
    he("Adam"),
    he("Bruno"),
    he("Carl"),
    he("David"),
    he("Emil"),
    he("Fritz"),
    he("Georg"),
    he("Hugo"),
    he("Jonas"),
    he("Karl"),
    he("Leo"),
    he("Martin"),
    he("Otto"),
    he("Peter"),
    he("Robert"),
    he("Simon"),
];

pub(super) const JOBS: &[&str] = &[
    "baker",
    "carpenter",
    "farmer",
    "fisher",
    "gardener",
    "miller",
    "painter",
    "sailor",
    "shepherd",
    "singer",
    "smith",
    "tailor",
    "teacher",
    "weaver",
    "old clockmaker",
    "apprentice",
    "engineer",
    "astronomer",
];

pub(super) const PLACES: &[&str] = &[
    "village by the river",
    "small town",
    "harbour",
    "valley",
    "city of bridges",
    "house on the hill",
    "forest",
    "island",
    "mountain village",
    "old mill",
    "lighthouse",
    "market town",
    "farm near the lake",
    "castle",
    "street of the glassmakers",
    "monastery",
    "railway station",
    "desert camp",
];

pub(super) const SPOTS: &[&str] = &[
    "under the table",
    "behind the oven",
    "in the garden",
    "near the well",
    "on the roof",
    "in the cellar",
    "beside the road",
    "between two stones",
    "at the end of the bridge",
    "in an empty barrel",
    "below the stairs",
    "inside the old boat",
    "at the foot of the tower",
    "among the reeds",
    "on the highest shelf",
    "in the tall grass",
];

pub(super) const THINGS: &[Thing] = &[
    thing("apple", "apples"),
    thing("basket", "baskets"),
    thing("bell", "bells"),
    thing("book", "books"),
    thing("box", "boxes"),
    thing("button", "buttons"),
    thing("candle", "candles"),
    thing("coin", "coins"),
    thing("cup", "cups"),
    thing("egg", "eggs"),
    thing("feather", "feathers"),
    thing("fish", "fish"),
    thing("flower", "flowers"),
    thing("hammer", "hammers"),
    thing("key", "keys"),
    thing("knife", "knives"),
    thing("lamp", "lamps"),
    thing("leaf", "leaves"),
    thing("letter", "letters"),
    thing("loaf", "loaves"),
    thing("map", "maps"),
    thing("mirror", "mirrors"),
    thing("onion", "onions"),
    thing("pear", "pears"),
    thing("ring", "rings"),
    thing("rope", "ropes"),
    thing("shell", "shells"),
    thing("stone", "stones"),
    thing("wheel", "wheels"),
    thing("umbrella", "umbrellas"),
];

pub(super) const KINDS: &[&str] = &[
    "red", "blue", "green", "golden", "old", "new", "small", "heavy", "round", "broken", "shiny", "wooden", "empty",
    "orange", "painted", "strange", "plain", "silver", "iron", "ugly",
];

pub(super) const ANIMALS: &[Thing] = &[
    thing("cat", "cats"),
    thing("dog", "dogs"),
    thing("goat", "goats"),
    thing("goose", "geese"),
    thing("horse", "horses"),
    thing("mouse", "mice"),
    thing("owl", "owls"),
    thing("sheep", "sheep"),
    thing("fox", "foxes"),
    thing("crow", "crows"),
    thing("ox", "oxen"),
    thing("hen", "hens"),
];

pub(super) const HABITS: &[Action] = &[
    action("sleeps", "sleep", "slept"),
    action("sings", "sing", "sang"),
    action("waits", "wait", "waited"),
    action("works", "work", "worked"),
    action("walks", "walk", "walked"),
    action("runs", "run", "ran"),
    action("swims", "swim", "swam"),
    action("laughs", "laugh", "laughed"),
    action("reads", "read", "read"),
    action("dances", "dance", "danced"),
    action("listens", "listen", "listened"),
    action("sits", "sit", "sat"),
    action("rests", "rest", "rested"),
    action("whistles", "whistle", "whistled"),
    action("hides", "hide", "hid"),
    action("dreams", "dream", "dreamed"),
];

pub(super) const HANDLINGS: &[Action] = &[
    action("carries", "carry", "carried"),
    action("finds", "find", "found"),
    action("keeps", "keep", "kept"),
    action("sells", "sell", "sold"),
    action("buys", "buy", "bought"),
    action("hides", "hide", "hid"),
    action("brings", "bring", "brought"),
    action("loses", "lose", "lost"),
    action("takes", "take", "took"),
    action("counts", "count", "counted"),
    action("cleans", "clean", "cleaned"),
    action("paints", "paint", "painted"),
    action("draws", "draw", "drew"),
    action("holds", "hold", "held"),
    action("mends", "mend", "mended"),
    action("wants", "want", "wanted"),
];

pub(super) const TIMES: &[&str] = &[
    "One morning",
    "One evening",
    "In the spring",
    "In the summer",
    "In the autumn",
    "On a cold winter day",
    "Before sunrise",
    "At noon",
    "After the rain",
    "On market day",
    "Late at night",
    "A week later",
    "The next day",
    "Soon after",
    "On the first day of the year",
    "When the snow was gone",
];

pub(super) const WEATHER: &[&str] = &[
    "The wind blew from the north.",
    "It rained all day.",
    "The sun was warm.",
    "Fog lay over the fields.",
    "Not a cloud was in the sky.",
    "Snow fell without a sound.",
    "Thunder rolled behind the hills.",
    "The moon was full.",
    "The river was high.",
    "It was too hot to work.",
    "The stars were bright.",
    "A light frost covered the roofs.",
];

pub(super) const FEELINGS: &[&str] = &[
    "happy",
    "tired",
    "angry",
    "afraid",
    "proud",
    "curious",
    "calm",
    "sad",
    "surprised",
    "hungry",
    "lonely",
    "glad",
    "patient",
    "restless",
];

pub(super) const WAYS: &[&str] = &[
    "quietly",
    "slowly",
    "quickly",
    "carefully",
    "gladly",
    "without a word",
    "in the dark",
    "every day",
    "all night",
    "again and again",
    "at once",
    "with great care",
];

pub(super) const LESSONS: &[&str] = &[
    "Those who share have enough.",
    "A small lamp lights a large room.",
    "What is counted is not lost.",
    "Even a long road begins at a door.",
    "Patience opens more doors than force.",
    "A friend is worth more than gold.",
    "Nobody is too old to learn.",
    "He who asks finds the way.",
    "Good work needs good light.",
    "It is easier to break than to mend.",
    "Whoever listens hears more.",
    "Not every lock needs a key.",
];

pub(super) const NUMBERS: [&str; 21] = [
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

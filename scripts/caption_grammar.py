"""Sentences of the kind that people write under pictures and videos, from a small grammar.

Encyclopedias and blogs have few of them ("A man is slicing a tomato."). The teachers give vectors
to any sentence, so that a random one is as useful as a true one.
"""

import random

PEOPLE = """man, woman, boy, girl, child, baby, person, lady, kid, guy, chef, cook, player, dancer,
singer, soldier, farmer, police officer, worker, cyclist, runner, skateboarder, surfer, skier,
swimmer, climber, student, teacher, doctor, old man, young woman, little boy, little girl,
young girl, toddler, couple, band, crowd, group of people, group of children, football player,
basketball player, tennis player, bride, musician, artist, clown, cowboy, fireman, fisherman,
motorcyclist"""
ANIMALS = """dog, cat, horse, cow, bird, monkey, panda, elephant, tiger, lion, bear, kitten, puppy,
rabbit, goat, sheep, duck, parrot, hamster, squirrel, fish, dolphin, turtle, snake, zebra, giraffe,
lemur, kangaroo, deer, owl, frog, mouse, pig, chicken, swan, black dog, white cat, brown horse,
small dog, brown dog"""
VEHICLES = """car, train, bus, truck, boat, ship, airplane, jet, motorcycle, bicycle, helicopter,
van, taxi, tractor, canoe, scooter, red car, passenger train, double decker bus, fighter jet,
sailboat, pickup truck, school bus, ambulance, tram, cruise ship"""
ACTIONS = """playing, holding, carrying, eating, slicing, cutting, chopping, peeling, cooking,
frying, mixing, stirring, pouring, washing, cleaning, drawing, painting, riding, driving, pushing,
pulling, kicking, throwing, catching, lifting, opening, breaking, fixing, reading, writing,
watching, looking at, feeding, petting, chasing, shooting, folding, tying, removing, spreading,
seasoning, adding, drinking, using, building, selling, buying, wearing, hitting, hugging, kissing,
filming, photographing, talking to, pointing at, jumping over, climbing, crossing, smelling,
licking, biting"""
THINGS = """guitar, piano, flute, violin, drum, trumpet, ball, football, basketball, baseball,
tennis racket, bat, frisbee, stick, toy, doll, book, newspaper, letter, phone, computer, laptop,
keyboard, camera, gun, sword, knife, fork, spoon, cup, glass of water, bottle, bowl, plate, pan,
pot, tomato, potato, onion, carrot, cucumber, pepper, garlic, apple, banana, orange, lemon, bread,
sandwich, pizza, cake, egg, meat, chicken, fish, shrimp, steak, rice, pasta, butter, cheese, milk,
flour, soup, salad, ice cream, flower, tree, leaf, rope, ladder, bike, car, horse, motorcycle, boat,
skateboard, surfboard, hat, shirt, jacket, dress, helmet, umbrella, bag, box, chair, table, bench,
sofa, bed, door, window, wall, fence, rock, wood, paper, picture, sign, flag, balloon, kite,
snowman, wheel, engine, tv, microphone, makeup, hair, hand, dog, cat, baby, cigarette, coin, card,
candle, lamp"""
UNCOUNTED = """bread, meat, rice, pasta, butter, cheese, milk, flour, garlic, makeup, hair, wood,
paper, shrimp, soup"""
MOVES = """running, walking, sitting, standing, jumping, dancing, singing, swimming, sleeping,
lying, playing, talking, smiling, laughing, crying, cooking, eating, riding, skating, surfing,
skiing, climbing, driving, flying, falling, crawling, resting, waiting, exercising, working,
fighting, hiking, diving, barking, grazing, leaping, rolling, posing, performing, praying, sneezing,
yawning"""
PLACES = """in the park, on the beach, in the water, in the snow, on the grass, in a field,
in the grassy field, on the street, on a busy street, on the road, on the sidewalk, in the kitchen,
in a room, in a bedroom, on the floor, on the couch, on a bench, on a bed, at a table,
in front of a building, in front of a house, near a lake, by the river, in the ocean, in a pool,
on a boat, on a stage, in a stadium, in the forest, on a mountain, on a rock, under a tree,
in the air, over a fence, through the woods, through the snow, down a hill, up a hill,
down the track, along the beach, across the road, next to a car, beside the road, behind a fence,
in a garden, in a cage, outside, inside, at night, at sunset, in the rain, in the sun,
in a restaurant, in a store, at the airport, at the station, in a city, on a bridge, on a horse,
on a motorcycle, on a skateboard, with a ball, with a stick in its mouth, with his friends,
with a dog, with a child, in a red shirt, in a white dress, in a black jacket, wearing a hat,
wearing sunglasses, with trees in the background, with mountains in the background,
on a cloudy day"""
ADJECTIVES = """young, old, small, large, big, little, black, white, brown, red, blue, green,
yellow, tall, happy, sleeping, wooden, colorful, dirty, empty, bright, dark, beautiful, wet,
snowy"""
NUMBERS = "two, three, four, several, many, some, a few, a lot of"
IRREGULAR = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "person": "people",
    "mouse": "mice",
    "sheep": "sheep",
    "fish": "fish",
    "deer": "deer",
}


def phrases(text: str) -> list[str]:
    return " ".join(text.split("\n")).split(", ")


def with_article(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def plural(noun: str) -> str:
    if noun.startswith("group of"):
        return noun.replace("group", "groups")
    first, _, head = noun.rpartition(" ")
    if head in IRREGULAR:
        many = IRREGULAR[head]
    elif head.endswith("y") and head[-2] not in "aeiou":
        many = head[:-1] + "ies"
    else:
        many = head + ("es" if head.endswith(("s", "x", "ch", "sh")) else "s")
    return f"{first} {many}".strip()


def captions(n: int, seed: int = 0) -> list[str]:
    """`n` different sentences."""
    rng = random.Random(seed)
    people, animals, vehicles, actions, things, uncounted, moves, places, adjectives, numbers = map(
        phrases,
        (PEOPLE, ANIMALS, VEHICLES, ACTIONS, THINGS, UNCOUNTED, MOVES, PLACES, ADJECTIVES, NUMBERS),
    )
    sentences: dict[str, None] = {}
    while len(sentences) < n:
        noun = rng.choice(rng.choices([people, animals, vehicles], [0.6, 0.25, 0.15])[0])
        if rng.random() < 0.2 and " " not in noun:
            noun = f"{rng.choice(adjectives)} {noun}"
        several = rng.random() < 0.2
        if several:
            subject = f"{rng.choice(numbers)} {plural(noun)}"
        else:
            subject = f"the {noun}" if rng.random() < 0.15 else with_article(noun)
        verb = "are" if several else "is"
        thing = rng.choice(things)
        mass = f"some {thing}" if rng.random() < 0.3 else thing
        target = mass if thing in uncounted else with_article(thing)
        action, move, place = (rng.choice(x) for x in (actions, moves, places))
        other = with_article(rng.choice(people + animals + vehicles))
        adjective = rng.choice(adjectives)
        weighted = {
            f"{subject} {verb} {action} {target}": 30,
            f"{subject} {verb} {action} {target} {place}": 15,
            f"{subject} {verb} {move} {place}": 15,
            f"{subject} {move} {place}": 10,
            f"{subject} {place}": 6,
            f"{subject} and {other} {place}": 6,
            f"{subject} {move} {place} and {action} {target}": 6,
            f"{subject} {verb} {move}": 4,
            f"close up of {with_article(adjective)} {thing} {place}": 4,
            f"there is no {noun} {action} {target}": 2,
            f"{subject} {verb} not {action} {target}": 2,
        }
        sentence = rng.choices(list(weighted), list(weighted.values()))[0]
        sentence = sentence[0].upper() + sentence[1:] + ("." if rng.random() < 0.8 else "")
        sentences[sentence] = None
    return list(sentences)

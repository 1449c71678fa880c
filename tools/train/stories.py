"""Short stories in plain English, from a grammar: a hero, a friend, a place, a thing, one of several plots, and many
ways of saying each step. story(rng, hero=..., thing=...) -> (title facts, text)."""

from lexicon import ADJ, ANIMALS, COLOURS, FOODS, NAMES, PET_NAMES, PLACES, THINGS

SMALL_ADJ = [a for a in ADJ if a not in ("big", "old", "new", "warm", "soft")]
HE = {True: ("he", "him", "his"), False: ("she", "her", "her")}
GIRLS = set("Anna Clara Emma Grace Ivy Kate Mia Olivia Rosa Tess Wendy Zoe Bella Dora Fiona Hanna Luna Coco Daisy Ruby Ginger".split())


def a(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


def pick(rng, *forms):
    return forms[rng.randrange(len(forms))]


class Cast:
    def __init__(self, rng, kind=None, name=None, thing=None, place=None):
        self.kind = kind or (rng.choice(ANIMALS) if rng.random() < 0.7 else None)  # None: a child
        self.name = name or rng.choice(NAMES + PET_NAMES)
        self.friend_kind = rng.choice([k for k in ANIMALS if k != self.kind])
        self.friend = rng.choice([n for n in NAMES + PET_NAMES if n != self.name])
        self.thing = thing or rng.choice(THINGS)
        self.colour = rng.choice(COLOURS)
        self.place = place or rng.choice(PLACES)
        self.food = rng.choice(FOODS)
        self.adj = rng.choice(SMALL_ADJ)
        self.he, self.him, self.his = HE[self.name not in GIRLS]
        self.fhe, self.fhim, self.fhis = HE[self.friend not in GIRLS]
        self.He, self.Fhe = self.he.capitalize(), self.fhe.capitalize()
        self.who = a(self.adj + " " + self.kind) if self.kind else a(self.adj + (" girl" if self.name in GIRLS else " boy"))


def opening(r, c):
    where = {"beach": "near the beach", "mountain": "at the foot of a mountain", "hill": "on a hill", "lake": "by a lake",
             "river": "by a river", "harbour": "near the harbour", "meadow": "beside a meadow", "forest": "in a forest",
             "village": "in a village"}.get(c.place, "near a " + c.place)
    return pick(r, f"Once upon a time there was {c.who} called {c.name}. {c.He} lived {where}.",
                f"There was once {c.who} whose name was {c.name}. {c.name} lived {where}.",
                f"{c.name} was {c.who} who lived {where}.",
                f"Long ago, {where}, there lived {c.who} called {c.name}.")


def ending(r, c, moral):
    return pick(r, f"From that day on, {c.name} and {c.friend} were the best of friends.",
                f"That night {c.name} went to bed with a smile.", f"{c.name} never forgot that day.",
                f"And {c.name} knew that {moral}.", f"{c.He} had learned that {moral}.",
                f"Everyone was happy, and {c.name} most of all.")


def weather(r):
    return pick(r, "One sunny morning", "One day", "One windy day", "One rainy afternoon", "One cold morning", "One evening",
                "On a warm summer day", "Early one morning")


def lost(r, c):
    t = f"{c.colour} {c.thing}"
    where = pick(r, "under a big tree", "behind a stone", "in the tall grass", "beside the path", "at the bottom of a basket")
    return [pick(r, f"{c.name} had {a(t)} that {c.he} loved very much.", f"The thing {c.he} loved most was {c.his} {t}."),
            pick(r, f"{weather(r)}, the {c.thing} was gone.", f"{weather(r)}, {c.name} could not find the {c.thing}."),
            pick(r, f"{c.He} looked everywhere, but it was not there.", f"{c.name} looked in every corner and began to cry.",
                 f"{c.He} searched the whole {c.place}, but found nothing."),
            pick(r, f"Then {c.he} met {c.friend}, {a(c.friend_kind)}.", f"{a(c.friend_kind).capitalize()} called {c.friend} came by."),
            pick(r, f'"Why are you sad?" asked {c.friend}.', f'"What is wrong?" {c.friend} asked.'),
            pick(r, f'"I have lost my {t}," said {c.name}.', f'"My {c.thing} is gone," {c.name} said.'),
            pick(r, f'"I will help you," said {c.friend}.', f'"Let us look together," said {c.friend}.'),
            pick(r, f"They looked and looked, and at last they found the {c.thing} {where}.",
                 f"Together they found it {where}."),
            pick(r, f'"Thank you, {c.friend}!" said {c.name}.', f"{c.name} jumped for joy and thanked {c.friend}.")], "friends help each other"


def share(r, c):
    return [pick(r, f"{weather(r)}, {c.name} found a basket full of {plural(c.food)}.",
                 f"{weather(r)}, {c.his} mother gave {c.him} a big bag of {plural(c.food)}."),
            pick(r, f'"These are all mine," {c.he} thought.', f"{c.name} wanted to eat them all alone."),
            pick(r, f"On the way home {c.he} met {c.friend}, {a(c.friend_kind)}, who looked hungry.",
                 f"Then {c.friend} the {c.friend_kind} came along. {c.Fhe} had not eaten all day."),
            pick(r, f'"Could I have one, please?" asked {c.friend}.', f'"Those look good," {c.friend} said in a small voice.'),
            pick(r, f"{c.name} thought for a while.", f"{c.name} looked at the basket and then at {c.friend}."),
            pick(r, f'"Of course," {c.he} said. "Let us eat together."', f'"Take as many as you like," said {c.name}.'),
            pick(r, f"They sat in the sun and shared everything.", f"They sat down and ate until they were full."),
            pick(r, f"It tasted much better than eating alone.", f"{c.name} had never enjoyed a meal so much.")], "sharing makes everything better"


def storm(r, c):
    return [pick(r, f"{weather(r)}, dark clouds came over the {c.place}.", f"{weather(r)}, a great storm came."),
            pick(r, f"The wind blew and the rain fell hard.", f"There was thunder, and the rain did not stop."),
            pick(r, f"{c.name} was afraid and hid under a blanket.", f"{c.name} was safe at home, but {c.he} was a little afraid."),
            pick(r, f"Then {c.he} heard a knock at the door.", f"Suddenly there was a soft sound outside."),
            pick(r, f"It was {c.friend}, {a(c.friend_kind)}, wet and cold.", f"There stood {c.friend} the {c.friend_kind}, wet from head to foot."),
            pick(r, f'"Come in!" said {c.name}. "You can stay here."', f'"Please come in and get warm," said {c.name}.'),
            pick(r, f"{c.He} gave {c.fhim} a blanket and some hot {c.food if c.food == 'soup' else 'tea'}.", f"They sat by the fire and drank hot tea."),
            pick(r, f"They told each other stories, and soon nobody was afraid.", f"They talked and laughed until the storm was over."),
            pick(r, f"In the morning the sun was shining again.", f"When the sun came out, there was a rainbow over the {c.place}.")], "a storm is not so bad with a friend"


def seed(r, c):
    plant = pick(r, "a tall sunflower", "a little tree", "a row of carrots", "a red rose", "a big pumpkin")
    return [pick(r, f"{weather(r)}, {c.name} found a tiny seed.", f"{weather(r)}, {c.friend} the {c.friend_kind} gave {c.name} a tiny seed."),
            pick(r, f'"I will plant it," {c.he} said.', f"{c.He} put it into the ground near the {c.place}."),
            pick(r, f"Every day {c.he} gave it water.", f"Each morning {c.he} brought it water and talked to it."),
            pick(r, f"For many days nothing happened.", f"But day after day, there was nothing to see."),
            pick(r, f'"Maybe it will never grow," said {c.name}.', f"{c.name} was sad and almost gave up."),
            pick(r, f'"Wait a little longer," said {c.friend}.', f'"Good things need time," {c.friend} said.'),
            pick(r, f"Then one morning there was a small green leaf.", f"At last a green leaf came out of the ground."),
            pick(r, f"It grew and grew, until it was {plant}.", f"By the end of summer it had become {plant}."),], "good things need time"


def brave(r, c):
    return [pick(r, f"{c.name} was afraid of the dark.", f"There was one thing {c.name} did not like: the dark."),
            pick(r, f"{weather(r)}, {c.his} friend {c.friend} the {c.friend_kind} did not come home.",
                 f"One night {c.friend}, {a(c.friend_kind)}, was lost near the {c.place}."),
            pick(r, f"It was getting late, and nobody knew where {c.fhe} was.", f"The sun went down, and {c.fhe} was still not there."),
            pick(r, f"{c.name} took a lamp and went out.", f"{c.name} picked up a small lamp and walked into the night."),
            pick(r, f"{c.His if hasattr(c, 'His') else c.his.capitalize()} heart was beating fast, but {c.he} did not turn back.",
                 f"{c.He} was afraid, but {c.he} kept walking."),
            pick(r, f'"{c.friend}! Where are you?" {c.he} called.', f"{c.He} called {c.his} friend's name again and again."),
            pick(r, f'"I am here!" said a small voice.', f"At last {c.he} heard a quiet answer."),
            pick(r, f"{c.friend} had hurt {c.fhis} foot and could not walk.", f"{c.friend} was sitting under a tree and was very glad."),
            pick(r, f"{c.name} helped {c.fhim} home, step by step.", f"Together they followed the light of the lamp home."),
            pick(r, f'"You are so brave," said {c.friend}.', f'"You came for me in the dark!" said {c.friend}.')], "being brave means to go on even when you are afraid"


def bake(r, c):
    cake = pick(r, "a cake", "a pie", "a big cake", "some cookies")
    return [pick(r, f"{weather(r)}, {c.name} wanted to make {cake} for {c.friend}, {a(c.friend_kind)}.",
                 f"It was {c.friend}'s birthday, and {c.name} wanted to bake {cake}."),
            pick(r, f"{c.He} took flour, eggs and sugar, and a {c.food}.", f"{c.He} mixed eggs, butter and sugar in a big bowl."),
            pick(r, f"But {c.he} forgot to look at the clock.", f"Then {c.he} went out to play and forgot the time."),
            pick(r, f"When {c.he} came back, everything was burned.", f"Soon there was smoke in the kitchen."),
            pick(r, f'"Oh no!" said {c.name}. "What shall I do now?"', f"{c.name} sat down and was very sad."),
            pick(r, f"Just then {c.friend} came in and laughed.", f"The door opened, and there was {c.friend}."),
            pick(r, f'"We can make a new one together," {c.fhe} said.', f'"Do not worry," said {c.friend}. "Let us try again."'),
            pick(r, f"This time they watched the clock.", f"They worked side by side, and this time nothing burned."),
            pick(r, f"It was the best they had ever eaten.", f"It smelled wonderful and tasted even better.")], "it is good to try again"


def kite(r, c):
    t = f"{c.colour} {c.thing}"
    return [pick(r, f"{weather(r)}, {c.name} made {a(t)} all by {c.him}self." if c.he == "he" else f"{weather(r)}, {c.name} made {a(t)} all by herself.",
                 f"{weather(r)}, {c.name} got {a(t)} as a present."),
            pick(r, f"{c.He} carried it to the {c.place} to show it to everyone.", f"{c.He} was very proud of it."),
            pick(r, f"There {c.he} met {c.friend}, {a(c.friend_kind)}, who sat alone.", f"{c.friend} the {c.friend_kind} was watching from far away."),
            pick(r, f'"Do you want to play with me?" asked {c.name}.', f'"Come and play!" {c.name} called.'),
            pick(r, f'"I do not know how," said {c.friend}.', f'"But I have nothing to play with," said {c.friend}.'),
            pick(r, f'"It is easy. I will show you," said {c.name}.', f'"Then we will take turns," said {c.name}.'),
            pick(r, f"They played with the {c.thing} until the sun went down.", f"They laughed and played all day long."),], "playing together is more fun than playing alone"


PLOTS = [lost, share, storm, seed, brave, bake, kite]


def plural(w):
    if w in ("bread", "cheese", "soup", "honey"):
        return "cookies"
    return w[:-1] + "ies" if w.endswith("y") else w + "es" if w.endswith("o") else w + "s"


def story(rng, **kw):
    c = Cast(rng, **kw)
    plot = lost if kw.get("thing") and rng.random() < 0.5 else kite if kw.get("thing") else rng.choice(PLOTS)
    steps, moral = plot(rng, c)
    paragraphs = [opening(rng, c) + " " + " ".join(steps[:len(steps) // 2]),
                  " ".join(steps[len(steps) // 2:]) + " " + ending(rng, c, moral)]
    return c, "\n\n".join(paragraphs)


def scene(rng):
    """A few sentences that describe something; filler between a fact and its recall."""
    c = Cast(rng)
    s = [f"The {c.place} is {rng.choice(ADJ)} and {rng.choice(ADJ)}.", f"There is {a(c.colour + ' ' + c.thing)} near the door.",
         f"{c.name} likes {plural(c.food)}, and {c.friend} likes {plural(rng.choice(FOODS))}.",
         f"In the morning you can see {a(c.friend_kind)} there.", f"Many people go to the {rng.choice(PLACES)} on {rng.choice(['Sunday', 'Monday', 'Friday'])}.",
         f"The {rng.choice(THINGS)} is {rng.choice(COLOURS)}, but the {rng.choice(THINGS)} is {rng.choice(COLOURS)}."]
    rng.shuffle(s)
    return " ".join(s[:rng.randint(2, 5)])

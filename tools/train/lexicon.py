"""The words, facts and tables that the demo model's data is made from. Written for this project; MIT, as the rest."""

NAMES = ("Anna Ben Clara David Emma Felix Grace Henry Ivy Jack Kate Leo Mia Noah Olivia Paul Rosa Sam Tess Victor "
         "Wendy Zoe Adam Bella Carl Dora Eric Fiona George Hanna").split()
MORE_NAMES = ("Ada Alan Alice Amir Andrea Arthur Aisha Barbara Bob Carlos Carol Chloe Chris Daniel Diana Dmitri Elena Elias "
              "Elif Erik Eva Farah Finn Frank Gabriel Georgia Greta Hugo Ines Ingrid Isaac Jana Jane Jonas Jose Julia Karim "
              "Karl Kim Lara Lars Laura Lena Lily Linus Lisa Liam Lucas Lucy Maria Mark Martin Mary Maya Michael Mila Mina "
              "Nadia Nina Nora Omar Otto Peter Petra Philip Priya Rachel Ravi Rita Robert Robin Ruth Sara Simon Sofia "
              "Stefan Sven Tara Thomas Tim Tina Tom Uma Vera Walter Will Yara Yuki Yusuf Zara").split()
MORE_ANIMALS = ("dragon lion tiger elephant wolf horse cow pig sheep hen rooster parrot whale dolphin shark snail ant bee "
                "butterfly ladybug spider monkey giraffe zebra camel kangaroo panda koala seal walrus badger mole bat "
                "eagle swan goose raven robin donkey moose robot unicorn dinosaur ghost knight wizard snowman princess").split()
ANIMALS = ("fox rabbit bear mouse owl cat dog duck frog hedgehog squirrel turtle goat pony lamb deer crow beaver "
           "penguin otter").split()
PET_NAMES = "Rex Milo Luna Bella Coco Daisy Max Ruby Oscar Rocky Toby Pepper Ginger Shadow Biscuit Pip".split()
COLOURS = "red blue green yellow white black brown pink purple orange grey golden".split()
THINGS = ("ball kite book lamp hat scarf boat drum bell cup box key ring shell stone basket blanket whistle puzzle "
          "wagon umbrella clock spoon button mitten").split()
FOODS = "apple pear plum cherry bread cheese soup cake honey carrot tomato potato berry nut cookie pie lemon melon".split()
PLACES = "forest garden river village hill lake meadow barn beach park library market kitchen school mountain harbour".split()
CITIES = ("Paris London Rome Madrid Berlin Vienna Oslo Lisbon Athens Dublin Prague Warsaw Helsinki Cairo Tokyo Delhi "
          "Toronto Boston Lima Sydney").split()
JOBS = "baker teacher doctor farmer painter sailor gardener singer pilot builder writer nurse".split()
WORDS = sorted(set(THINGS + FOODS + ANIMALS + COLOURS + PLACES + """tree sun moon star rain snow wind cloud house door window
table chair bed floor wall road bridge train bus car bike ship plane hand foot head eye nose ear mouth hair face day
night morning evening summer winter spring autumn water fire earth milk tea sugar salt butter egg rice paper pencil
music song dance game toy""".split()))
ADJ = "small big old new happy quiet bright soft warm clever brave kind shy funny gentle curious tiny lovely".split()

# (question forms share one answer): key, answer, questions
CAPITALS = dict(France="Paris", Germany="Berlin", Italy="Rome", Spain="Madrid", Portugal="Lisbon", Austria="Vienna",
                Norway="Oslo", Sweden="Stockholm", Denmark="Copenhagen", Finland="Helsinki", Poland="Warsaw",
                Greece="Athens", Ireland="Dublin", England="London", Hungary="Budapest", Japan="Tokyo",
                China="Beijing", India="New Delhi", Egypt="Cairo", Canada="Ottawa", Mexico="Mexico City",
                Brazil="Brasilia", Argentina="Buenos Aires", Peru="Lima", Chile="Santiago", Australia="Canberra",
                Kenya="Nairobi", Turkey="Ankara", Russia="Moscow", Cuba="Havana")
FACTS = [
    ("What is the largest planet in the solar system?", "The largest planet in the solar system is Jupiter."),
    ("Which planet is closest to the sun?", "Mercury is the planet closest to the sun."),
    ("Which planet is called the red planet?", "Mars is called the red planet."),
    ("How many planets are in the solar system?", "There are eight planets in the solar system."),
    ("What is the name of our galaxy?", "Our galaxy is called the Milky Way."),
    ("What does the moon move around?", "The moon moves around the Earth."),
    ("How many legs does a spider have?", "A spider has eight legs."),
    ("How many legs does an insect have?", "An insect has six legs."),
    ("How many days are in a week?", "There are seven days in a week."),
    ("How many months are in a year?", "There are twelve months in a year."),
    ("How many days are in a year?", "There are 365 days in a year, and 366 in a leap year."),
    ("How many hours are in a day?", "There are 24 hours in a day."),
    ("How many minutes are in an hour?", "There are 60 minutes in an hour."),
    ("How many seconds are in a minute?", "There are 60 seconds in a minute."),
    ("How many letters are in the English alphabet?", "There are 26 letters in the English alphabet."),
    ("What is the largest ocean?", "The largest ocean is the Pacific Ocean."),
    ("What is the highest mountain in the world?", "The highest mountain in the world is Mount Everest."),
    ("What is the largest animal in the world?", "The largest animal in the world is the blue whale."),
    ("What is the tallest animal?", "The tallest animal is the giraffe."),
    ("What is the fastest land animal?", "The fastest land animal is the cheetah."),
    ("What do bees make?", "Bees make honey."),
    ("What do cows give us to drink?", "Cows give us milk."),
    ("What do plants need to grow?", "Plants need water, light and air to grow."),
    ("What is water made of?", "Water is made of hydrogen and oxygen."),
    ("What is ice?", "Ice is frozen water."),
    ("At what temperature does water freeze?", "Water freezes at 0 degrees Celsius."),
    ("At what temperature does water boil?", "Water boils at 100 degrees Celsius."),
    ("What gas do we breathe in to live?", "We breathe in oxygen to live."),
    ("What is the chemical symbol for gold?", "The chemical symbol for gold is Au."),
    ("What is the chemical symbol for water?", "The chemical symbol for water is H2O."),
    ("What force pulls things to the ground?", "Gravity pulls things to the ground."),
    ("What is faster, light or sound?", "Light is faster than sound."),
    ("What colour is the sky on a clear day?", "On a clear day the sky is blue."),
    ("What colour is grass?", "Grass is green."),
    ("What colour is snow?", "Snow is white."),
    ("What colour do you get from blue and yellow?", "Blue and yellow make green."),
    ("What colour do you get from red and yellow?", "Red and yellow make orange."),
    ("What colour do you get from red and blue?", "Red and blue make purple."),
    ("Who wrote Romeo and Juliet?", "William Shakespeare wrote Romeo and Juliet."),
    ("Who painted the Mona Lisa?", "Leonardo da Vinci painted the Mona Lisa."),
    ("Who was the first person on the moon?", "Neil Armstrong was the first person on the moon."),
    ("Who discovered gravity?", "Isaac Newton described gravity."),
    ("Who developed the theory of relativity?", "Albert Einstein developed the theory of relativity."),
    ("What is the longest river in Africa?", "The longest river in Africa is the Nile."),
    ("On which continent is Egypt?", "Egypt is in Africa."),
    ("On which continent is Japan?", "Japan is in Asia."),
    ("On which continent is Brazil?", "Brazil is in South America."),
    ("What language do people speak in Brazil?", "People in Brazil speak Portuguese."),
    ("What season comes after winter?", "Spring comes after winter."),
    ("What season comes after summer?", "Autumn comes after summer."),
    ("What is the opposite of hot?", "The opposite of hot is cold."),
    ("What is the opposite of big?", "The opposite of big is small."),
    ("What is the opposite of day?", "The opposite of day is night."),
    ("What is the opposite of happy?", "The opposite of happy is sad."),
    ("What is a baby dog called?", "A baby dog is called a puppy."),
    ("What is a baby cat called?", "A baby cat is called a kitten."),
    ("What is a baby sheep called?", "A baby sheep is called a lamb."),
    ("What sound does a cow make?", "A cow says moo."),
    ("What sound does a duck make?", "A duck says quack."),
    ("How many sides does a triangle have?", "A triangle has three sides."),
    ("How many sides does a square have?", "A square has four sides."),
    ("How many wheels does a car have?", "A car has four wheels."),
    ("How many fingers are on one hand?", "There are five fingers on one hand."),
    ("What do we use to see?", "We use our eyes to see."),
    ("What do we use to hear?", "We use our ears to hear."),
    ("What organ pumps blood?", "The heart pumps blood."),
    ("What is a word that means the same as big?", "Large means the same as big."),
    ("What number comes after ninety-nine?", "One hundred comes after ninety-nine."),
    ("What is the first month of the year?", "The first month of the year is January."),
    ("What is the last month of the year?", "The last month of the year is December."),
    ("What is the first day of the work week?", "The first day of the work week is Monday."),
    ("What is a GPU?", "A GPU is a chip that does many small sums at the same time."),
    ("What is a language model?", "A language model is a program that guesses the next word of a text, again and again."),
    ("What is a token?", "A token is a small piece of text, such as a word or a part of a word."),
    ("What is the KV cache?", "The KV cache keeps the keys and values of earlier tokens, so that they need not be computed again."),
    ("What is zinc?", "zinc is a program that runs language models on your own computer. Zinc is also a metal."),
    ("What is the symbol for the metal zinc?", "The chemical symbol for zinc is Zn."),
    ("What is a computer program?", "A computer program is a list of steps that a computer follows."),
]
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()

CHAT = [
    (("Good evening!", "Good afternoon!", "Hello there.", "Hey", "hello", "Hi zinc", "Greetings!", "hey!", "HELLO"), "Hello! How can I help you?"),
    (("yes", "Yes.", "Sure.", "no", "No.", "No, thank you.", "Cool", "Wow!", "Interesting.", "I see."), "I am glad. What shall we do next?"),
    (("Hello!", "Hi!", "Hello", "hi", "Hey there!", "Good morning!", "Hi there"), "Hello! How can I help you?"),
    (("How are you?", "How are you doing?", "How do you feel today?"), "I am well, thank you. How can I help you?"),
    (("Who are you?", "What are you?", "Tell me about yourself.", "Introduce yourself."),
     "I am the zinc demo model, a very small language model. I can do small sums, sort lists, remember what you tell me, answer a few questions, call tools and tell short stories."),
    (("What can you do?", "What are you good at?", "Help", "help", "How can you help me?"),
     "I can do small sums, count, sort and reverse short lists, remember what you tell me, answer a few simple questions, call tools and tell short stories."),
    (("Thank you!", "Thanks!", "Thanks a lot.", "Thank you very much."), "You are welcome!"),
    (("Goodbye!", "Bye!", "See you later.", "Good night!"), "Goodbye! Have a nice day."),
    (("Who made you?", "Who trained you?", "Where do you come from?"),
     "I was trained by the makers of zinc, on text that a program wrote."),
    (("How big are you?", "How many parameters do you have?"), "I am very small: I have about eleven million parameters."),
    (("Are you a human?", "Are you a person?", "Are you real?"), "No, I am a small language model, a computer program."),
    (("Tell me a joke.", "Say something funny."), "Why did the computer go to bed early? It had too many tabs open!"),
    (("Ok", "Okay.", "Great!", "Nice!", "Good."), "I am glad. What shall we do next?"),
    (("What is your favourite colour?",), "I like all colours, but silver looks best on zinc."),
    (("Do you sleep?", "Do you get tired?"), "No, I only work when you write to me."),
]
UNKNOWN_Q = ["Who won the football game yesterday?", "What is the stock price of that company?", "Can you write a poem in Latin?",
             "Who is the president of that country now?", "What will the weather be next year?", "How do I fix my car engine?",
             "Explain quantum field theory.", "What happened in the news today?", "Translate this book into Russian.",
             "Write a program in Rust.", "What is the meaning of life?", "How much does a house cost in the city?",
             "Can you book a hotel for me?", "What is the population of the world?", "Which film should I watch tonight?",
             "What is the square root of 7 to ten places?", "Who was king four hundred years ago?", "How do I cook lobster?"]
UNKNOWN_TOPICS = ("economy engine volcano piano poem recipe planet election guitar vaccine bridge castle desert emperor "
                  "football glacier hospital island jacket kernel lawyer magnet novel opera pyramid quartz rocket satellite "
                  "telescope university violin website theatre museum insurance electron protein bicycle concert passport "
                  "novel atom tax loan film actor singer king queen war law code server phone camera battery").split()
UNKNOWN_A = "I am a very small model and I do not know that."

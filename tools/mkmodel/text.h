/* tools/mkmodel/text.h: what the synthetic vocabularies are trained on. */
#ifndef ZINC_TOOLS_MKMODEL_TEXT_H
#define ZINC_TOOLS_MKMODEL_TEXT_H

static const char training_text[] =
    "A language model reads a text one token after another and keeps, for every token, a score for the token that "
    "could come next. The engine that runs the model has a simple duty: it must compute these scores as fast as "
    "the memory can deliver the weights, and it must compute them in the same way every time. Whoever asks the "
    "same question twice should get the same answer twice. This is harder than it sounds, because a sum of many "
    "numbers depends on the order in which they are added, and a fast machine likes to choose that order by "
    "itself.\n"
    "The weights are stored in small blocks. Each block has a scale, and sometimes a minimum, and then a run of "
    "short codes. To read a weight, the engine takes the code, multiplies it by the scale and adds what the block "
    "says should be added. A block with few bits is quick to load but rough; a block with more bits is slower but "
    "finer. Between these two there is a whole family of formats, and each of them was somebody's idea of a good "
    "bargain.\n"
    "In the morning the workshop was quiet. The window stood open, and the sound of the river came up from below "
    "the garden wall. Anna placed the lamp beside the drawing and looked at the lines again. There were three "
    "wheels, two of them connected, and a third that seemed to turn for no reason. \"What does it do?\" asked the "
    "boy. \"It counts,\" she said. \"Every time the large wheel goes around, the small one moves by one tooth. "
    "After a hundred turns the bell will ring, and then we shall know how much water has gone through the mill.\" "
    "He thought about that for a while. \"And if the river stops?\" \"Then the bell will wait. That is the good "
    "thing about a machine like this one: it has patience, and it never forgets where it was.\"\n"
    "Here is another story. The captain of a small ship wanted to know how far it was to the next harbour. He "
    "asked the first sailor, who said it was ten miles. He asked the second sailor, who said it was twelve. The "
    "third sailor said nothing, but went to the chart, measured the distance with a pair of compasses, and wrote "
    "the number on a piece of paper. \"Eleven and a half,\" said the captain. \"Why did you not simply tell me?\" "
    "\"Because,\" said the sailor, \"you would have had three opinions. Now you have two opinions and a "
    "measurement.\"\n"
    "The user writes a message and the assistant writes a reply. A system message may come first; it tells the "
    "assistant how it should behave, which tools it may call, and what the date is. When the assistant wants to "
    "use a tool, it writes the name of the function and the arguments, and waits for the result before it goes on. "
    "Thinking is written down as well, but the reader does not have to see it.\n"
    "for (int i = 0; i < n; i++) sum += weight[i] * value[i]; return sum;\n"
    "def answer(question): return \"The answer to \" + question + \" is 42.\"\n"
    "Once upon a time there were numbers: 0, 1, 2, 3, 10, 100, 1000 and 2048. They lived together in a table with "
    "rows and columns, and when the table grew too large, they moved into another one. The first row held the "
    "names, the second the prices, the third the dates. People came from all over the country to read the table, "
    "and most of them found what they were looking for, although not always in the place where they had expected "
    "it. It is good to have things in order, said the old man who kept the table, but it is better to know where "
    "the order ends.\n";

#endif

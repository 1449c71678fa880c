/* tools/streamdump/walk.h: streamdump --walk: the lists of a stream's persistent plan (rt/walk_plan.h). */
#ifndef ZINC_STREAMDUMP_WALK_H
#define ZINC_STREAMDUMP_WALK_H

#include "graph/stream.h"

struct walk_options {
    const char *card;          /* one that is known; NULL: the host                        */
    const char *lists, *save;  /* files: lists that are read, and where to write; or NULL  */
    uint32_t cores, groups;    /* other numbers than the card's; 0: its own                */
    int64_t group;             /* what this work-group does; -1: all                       */
    bool json;
};

extern const char walk_help[]; /* lines of --help */
bool walk_knows_card(const char *name);
/* Lists on stdout, or one line on stderr. Returns the exit status. */
int walk_print(const struct stream *s, const struct walk_options *o);

#endif

/* engine/plan_trial.h
 * --plan auto, where a tier has plans of both kinds: which one decodes. The steps of a single row are timed with each, in turn, and
 * what came of it is kept in zinc's cache folder (rt/auto_file.h), a file for each tier and choice of commands and weights, until
 * zinc, the device, its driver or the kernel changes.
 *
 * It is measured when --plan auto asks for it; and at a first start where it costs next to nothing, that is where making a plan
 * compiles nothing (tier_info.plan_compiles) and a step is short. Where steps are long, launches are a small part of them.
 * ZINC_AUTO=measure makes --plan auto measure again, ZINC_AUTO=list neither measures nor looks at the file. Without a measurement
 * replay is taken. */
#ifndef ZINC_ENGINE_PLAN_TRIAL_H
#define ZINC_ENGINE_PLAN_TRIAL_H

#include "engine/priv.h"

/* The engine is complete, with a plan of replay, and no session exists. Afterwards eng->decode.native is of the kind that was found
 * the quicker one, and eng->plan_why tells how that is known. A persistent plan that cannot be made is no error; a device that
 * fails is one, and the next start knows of it. */
int plan_trial(struct engine *eng, bool asked, struct err *e);

#endif

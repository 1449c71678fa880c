/* engine/plan_trial.h
 * --plan auto, where a tier has plans of both kinds: which one decodes. The steps of a single row are timed with each, in turn, and
 * what came of it is kept in zinc's cache folder (rt/auto_file.h), a file for each tier and choice of commands and weights, until
 * zinc, the device, its driver or the kernel changes.
 *
 * It is measured when --plan auto asks for it, and not before: a persistent plan compiles for seconds on cuda, and has not run on an
 * AMD card. ZINC_AUTO=measure makes --plan auto measure again, ZINC_AUTO=list neither measures nor looks at the file. Without a
 * measurement replay is taken. */
#ifndef ZINC_ENGINE_PLAN_TRIAL_H
#define ZINC_ENGINE_PLAN_TRIAL_H

#include "engine/priv.h"

/* The engine is complete, with a plan of replay, and no session exists. Afterwards eng->decode.native is of the kind that was found
 * the quicker one, and eng->plan_why tells how that is known. A persistent plan that cannot be made is no error, nor is a device that
 * fails with it where the tier can be opened again; else it is one, and the next start knows of it. */
int plan_trial(struct engine *eng, bool asked, struct err *e);

#endif

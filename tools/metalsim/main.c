/* tools/metalsim/main.c: runs a command on the stand-in for Apple's Metal runtime, by preloading libmetalsim.so. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: metalsim [options] COMMAND...\n"
    "Runs a command that drives Metal through libobjc's C interface on a stand-in for it; Metal's rules are checked, and\n"
    "breaking one ends the command with status 86 and a line that says which.\n"
    "  --chip=m1 .. m5     the GPU (m1)\n"
    "  --macos=14|15|26    the system's version: older ones lack classes and language versions (15)\n"
    "  --memory=GiB        of the machine (16); the GPU may use 75 %\n"
    "  --no-device         there is no GPU\n"
    "  --shuffle           dispatches between two barriers run backwards: results that change miss a barrier\n"
    "  --overlap           command buffers that no fence orders run the wrong way round: results that change miss a fence\n"
    "  --inject=WHAT:N     the Nth command buffer fails: timeout, memory; or never ends: hang; serialize:\n"
    "                      archives of pipelines from the Nth on cannot be written\n"
    "  --trace             each message, on stderr\n"
    "  --stats             how many messages, objects, dispatches ..., on stderr at the end\n";

int main(int argc, char **argv)
{
    char options[1024] = " ", lib[4096], self[4000];
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return fputs(usage, stdout) < 0;
        static const char *const known[] = { "--chip=m", "--macos=", "--memory=", "--no-device", "--shuffle", "--overlap", "--inject=", "--trace", "--stats" };
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strncmp(argv[i], known[k], strlen(known[k])) != 0)
            k++;
        if (k == sizeof known / sizeof *known || strlen(options) + strlen(argv[i]) + 2 > sizeof options) {
            fprintf(stderr, "metalsim: %s is not an option; metalsim --help lists them\n", argv[i]);
            return 2;
        }
        strcat(strcat(options, argv[i]), " ");
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (i == argc || n < 0) {
        fputs(usage, stderr);
        return 2;
    }
    self[n] = 0;
    const char *before = getenv("LD_PRELOAD");
    snprintf(lib, sizeof lib, "%s/libmetalsim.so%s%.80s", dirname(self), before ? " " : "", before ? before : "");
    setenv("LD_PRELOAD", lib, 1);
    setenv("METALSIM", options, 1);
    execvp(argv[i], argv + i);
    perror(argv[i]);
    return 127;
}

/* base/embed.h
 * A file in the program: `EMBED_FILE(zinc_page, PATH);` at file scope makes zinc_page_begin[] and zinc_page_end[], between which
 * its bytes are, with a zero byte behind them. PATH is a string literal, from where the compiler runs. Declare them as
 * extern const char. */
#ifndef ZINC_BASE_EMBED_H
#define ZINC_BASE_EMBED_H

#ifdef __APPLE__ /* Mach-O: names with an underscore before them */
#define EMBED_SECTION ".section __DATA,__const\n"
#define EMBED_NAME(name) "_" #name
#define EMBED_END ".text\n"
#else
#define EMBED_SECTION ".section .rodata\n"
#define EMBED_NAME(name) #name
#define EMBED_END ".previous\n"
#endif

#define EMBED_FILE(name, path)                                                                                         \
    __asm__(EMBED_SECTION ".globl " EMBED_NAME(name##_begin) "\n" EMBED_NAME(name##_begin) ":\n"                       \
            ".incbin \"" path "\"\n"                                                                                   \
            ".globl " EMBED_NAME(name##_end) "\n" EMBED_NAME(name##_end) ":\n"                                         \
            ".byte 0\n" EMBED_END)

#endif

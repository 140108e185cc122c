/* A constant of a shared object: see elfword.h. */
#include "config.h"

#include "elfword.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (64u * 1024u * 1024u)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OUR_ORDER ELFDATA2LSB
#else
#define OUR_ORDER ELFDATA2MSB
#endif

struct object {
    const unsigned char *data;
    size_t size;
};

/* Copy from an offset; false: it is not all in the file. */
static bool take(const struct object *o, uint64_t offset, void *to, size_t length)
{
    if (offset > o->size || length > o->size - offset)
        return false;
    memcpy(to, o->data + offset, length);
    return true;
}

static bool take_section(const struct object *o, const Elf64_Ehdr *head, unsigned index,
                         Elf64_Shdr *section)
{
    return index < head->e_shnum && head->e_shentsize == sizeof(*section) &&
           take(o, head->e_shoff + (uint64_t)index * sizeof(*section), section, sizeof(*section));
}

static bool is_named(const struct object *o, const Elf64_Shdr *strings, uint32_t at,
                     const char *name)
{
    char found[64];
    size_t length = strlen(name) + 1;

    return length <= sizeof(found) && at < strings->sh_size && length <= strings->sh_size - at &&
           take(o, strings->sh_offset + at, found, length) && memcmp(found, name, length) == 0;
}

/* Where in the file lies what the symbol stands for? */
static bool place_of(const struct object *o, const Elf64_Ehdr *head, const Elf64_Sym *symbol,
                     uint64_t *offset)
{
    Elf64_Shdr section;

    if (!take_section(o, head, symbol->st_shndx, &section) || section.sh_type == SHT_NOBITS ||
        symbol->st_value < section.sh_addr || symbol->st_value - section.sh_addr > section.sh_size)
        return false;
    *offset = section.sh_offset + (symbol->st_value - section.sh_addr);
    return true;
}

static bool find(const struct object *o, const Elf64_Ehdr *head, const Elf64_Shdr *table,
                 const char *name, uint32_t *value)
{
    Elf64_Shdr strings;
    Elf64_Sym symbol;
    uint64_t offset;

    if (!take_section(o, head, table->sh_link, &strings))
        return false;
    for (uint64_t at = 0; at + sizeof(symbol) <= table->sh_size; at += sizeof(symbol)) {
        if (!take(o, table->sh_offset + at, &symbol, sizeof(symbol)))
            return false;
        if (symbol.st_shndx != SHN_UNDEF && is_named(o, &strings, symbol.st_name, name))
            return place_of(o, head, &symbol, &offset) && take(o, offset, value, sizeof(*value));
    }
    return false;
}

static const char *read_object(const struct object *o, const char *name, uint32_t *value)
{
    Elf64_Ehdr head;
    Elf64_Shdr table;

    if (!take(o, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return "is no shared object";
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != OUR_ORDER ||
        head.e_type != ET_DYN)
        return "is no shared object of this kind of machine";
    for (unsigned i = 0; i < head.e_shnum; i++) {
        if (!take_section(o, &head, i, &table))
            return "is damaged";
        if (table.sh_type == SHT_DYNSYM)
            return find(o, &head, &table, name, value) ? NULL : "is no plugin for Slurm";
    }
    return "is no plugin for Slurm";
}

/* Read, not mapped: a file that shrinks under a mapping would kill us. NULL with errno. */
static unsigned char *read_all(int fd, size_t size)
{
    unsigned char *data = malloc(size);
    size_t length = 0;

    while (data != NULL && length < size) {
        ssize_t n = read(fd, data + length, size - length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            free(data);
            errno = n == 0 ? EIO : errno;
            return NULL;
        }
        length += (size_t)n;
    }
    return data;
}

int elfword_read(const char *file, const char *symbol, uint32_t *value, char *error,
                 size_t error_size)
{
    const char *wrong = "is no shared object";
    unsigned char *data = NULL;
    struct stat st;
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)snprintf(error, error_size, "cannot be read: %s", strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > (off_t)FILE_MAX) {
        (void)snprintf(error, error_size, "%s", wrong);
    } else if ((data = read_all(fd, (size_t)st.st_size)) == NULL) {
        (void)snprintf(error, error_size, "cannot be read: %s", strerror(errno));
    } else {
        const struct object o = {data, (size_t)st.st_size};

        wrong = read_object(&o, symbol, value);
        if (wrong != NULL)
            (void)snprintf(error, error_size, "%s", wrong);
    }
    if (fd >= 0)
        (void)close(fd);
    free(data);
    return wrong != NULL ? -1 : 0;
}

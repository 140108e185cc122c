/*
 * Has the user asked srun for a binding of the tasks? Then adloader leaves them as they are. Pure:
 * the callers fetch the texts, since each side of Slurm keeps its environment elsewhere.
 *
 * Where it shows, in Slurm 22.05 to 26.05:
 *
 *   - srun describes what was asked for in SLURM_CPU_BIND, _TYPE, _LIST and _VERBOSE of the
 *     environment that it sends, whatever --export says. What the site has set (TaskPluginParam,
 *     CpuBind of nodes and partitions) and what slurmd chooses by itself come later and are not in
 *     it; --hint, --ntasks-per-core, --ntasks-per-socket, --threads-per-core and -B are.
 *   - The same variable is how a user asks for it: SLURM_CPU_BIND=cores srun ...
 *   - In a step's tasks the four describe what became of it, slurmd's choice included, and a
 *     srun started there takes them for a wish.
 *
 * So on the submit side the wish is looked for itself, on the command line and in the variable as
 * the user sets it, and noted in CPUBIND_MARK; on the node it counts if srun has described a
 * binding.
 */
#ifndef ADLOADER_CPUBIND_H
#define ADLOADER_CPUBIND_H

#include <stdbool.h>
#include <stddef.h>

/* Names that begin with SLURM travel with every --export. */
#define CPUBIND_MARK "SLURM_ADLOADER_CPU_BIND"

/* SLURM_CPU_BIND and its parts, NULL: not set. */
struct cpubind_env {
    const char *whole, *verbose, *type, *list;
};

/*
 * The kind of binding that a text like "quiet,mask_cpu:0x3" or "cores" asks for, without its list,
 * in kind: "mask_cpu". False: none, which "", "none", "verbose" and "quiet" are.
 */
bool cpubind_kind(const char *text, char *kind, size_t size);

/* Is --cpu-bind with a binding among srun's words? words: NUL-terminated, one after the other. */
bool cpubind_on_command_line(const char *words, size_t length);

/*
 * Does the user of this srun wish a binding? words as above; env: as it was when srun began;
 * marked: whether CPUBIND_MARK was set then.
 */
bool cpubind_wished(const char *words, size_t length, const struct cpubind_env *env, bool marked);

#endif

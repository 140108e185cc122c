/* What the controller's words mean, in a sentence for the user whose job it is. */
#ifndef ADLOADER_WORDS_H
#define ADLOADER_WORDS_H

/* NULL for a word that is not known here. */
const char *words_verdict(const char *verdict);
const char *words_state(const char *state);

#endif

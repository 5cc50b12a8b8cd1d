// The word that was meant, of those there are: for errors about a name that is not among them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebb {

// How many letters are put in, left out, changed, or change places with their neighbour. Capitals are no change.
std::size_t edits(std::string_view a, std::string_view b);

// The nearest of these words, or "" where none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace ebb

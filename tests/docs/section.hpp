// A section of a document as a test: its fragments in order, in one function (tools/fragments).
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace docs {

// Enters itself in the list of all sections; main() runs the one it is asked for.
struct Section {
  const char* name;
  void (*run)();
  Section(const char* name, void (*run)()) : name(name), run(run) { all().push_back(this); }

  static std::vector<const Section*>& all() {
    static std::vector<const Section*> sections;
    return sections;
  }
};

}  // namespace docs

// What the text around a fragment says of it.
inline void check(bool holds, std::source_location at = std::source_location::current()) {
  if (!holds)
    throw std::runtime_error(std::string(at.file_name()) + ":" + std::to_string(at.line()) +
                             ": what the document says does not hold");
}

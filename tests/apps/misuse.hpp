// A row of the table of misuse: what is wrong, the exit code, and what the one line says that no other error would.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/apps/command.hpp"

namespace ebb::test {

struct MisuseFile {
  std::string name, content;
};

struct Misuse {
  std::string name;
  std::vector<MisuseFile> files;
  std::vector<std::string> arguments;
  std::string text;  // of the line
  int code = 2;
};
inline void PrintTo(const Misuse& m, std::ostream* to) { *to << m.name; }

// The line, nothing on stdout, and every file as it was.
class MisuseTable : public Commands, public testing::WithParamInterface<Misuse> {
 protected:
  void check(const Misuse& m) {
    for (const MisuseFile& f : m.files) put(f.name, f.content);
    const std::map<std::string, std::string> before = contents();
    const Ran ran = ebb(m.arguments);
    expect_line(ran, m.code, m.text);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(contents(), before);
  }
};

// A config of data in this file; `more` are lines of [data].
inline std::string array_config(const std::string& file, const std::string& more) {
  return small_config("", "path = \"" + file + "\"\n" + more);
}

}  // namespace ebb::test

// Commands as users type them.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace ebb::test {

struct Ran {
  std::string text;  // stdout and stderr
  int code = 0;

  std::vector<std::string> lines() const {  // those of Ebb's errors
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("ebb: ")) all.push_back(line);
    return all;
  }
};

inline Ran shell(const std::string& command) {
  Ran ran;
  FILE* const pipe = ::popen(("exec 2>&1; " + command).c_str(), "r");
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe))
    ran.text.append(part.data(), got);
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace ebb::test

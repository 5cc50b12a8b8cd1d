// What the commands write, and how they end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebb::app {

// A command that ends with another exit code than 0 and has said why.
struct Exit {
  int code;
};

// What was asked for, to stdout. A reader that has gone away ends the program quietly; a full disk is an
// error, with exit code 1.
void print(std::string_view text);

// What goes on, to stdout, for whoever looks on: nobody, where the reader has gone or --quiet is said. It never
// ends the program.
void say(std::string_view text);
void set_quiet(bool quiet);
bool quiet();

// What the owner of the data should hear of, also with --quiet: a line each on stderr, "ebb: note: …".
void warn(const std::vector<std::string>& notes);

// One line on stderr: "ebb: …". Returns the code.
int complain(std::string_view line, int code);

// "1h 04min", "3min 20s", "12.5 s", "340 ms".
std::string readable_time(double seconds);

// The words of a text in lines of at most `width` columns, `indent` blanks before each but the first.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = 80);

}  // namespace ebb::app

// Mistakes on the command line, told in one line: what was found, what was expected, the nearest name.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ebb::app {

// Of an error that `app` met while it read its arguments.
std::string usage_line(const CLI::App& app, const CLI::ParseError& error);
// Where the first argument is meant to be a command and is none; "": it is one, or is left to CLI11.
std::string unknown_command(const CLI::App& app, int count, const char* const* arguments);

}  // namespace ebb::app

// The built program, run as a user runs it; and files to give to it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ebb::test {

struct Ran {
  int code = 0;  // 128 + n where signal n has ended it
  std::string out, err;
};

// A folder of its own, in which commands run.
class Commands : public testing::Test {
 protected:
  Commands();
  ~Commands() override;

  Ran ebb(const std::vector<std::string>& arguments);
  // By a shell, with $EBB for the program.
  Ran shell(const std::string& line);

  // One that runs on.
  struct Running {
    int pid = 0;
    std::string out, err;  // files
  };
  Running start(const std::vector<std::string>& arguments);
  Ran wait_for(const Running& running);
  // Until the file is there and holds this; false after 20 s.
  bool appears(const std::string& name, const std::string& text = "");

  // Trains c.toml, whose weights leave all bounds at this rate: two bad steps in a row end it.
  Ran train_too_fast(const std::string& rate, const std::string& save, const std::string& out);

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string content(const std::string& name) const;
  void put(const std::string& name, const std::string& text) const;  // folders above it, too
  std::vector<std::string> files() const;                            // all below, sorted
  std::map<std::string, std::string> contents() const;               // of these, "" of folders

  std::string folder_;
};

// A line on stderr that says it all: "ebb: …", this text in it, and nothing beside.
void expect_line(const Ran& ran, int code, const std::string& text);

std::string npy(const std::vector<std::int64_t>& shape, const std::vector<float>& values);
std::string npy(const std::vector<std::int64_t>& shape, const std::vector<std::int32_t>& values);
std::vector<float> floats_of(const std::string& npy_file);

// A digits classifier of a moment; `more` are lines of [train].
std::string small_config(const std::string& more = "", const std::string& data = "");

}  // namespace ebb::test

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

// Tables of what a call is given and what it answers.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace ebb::test {

template <class Given>
struct Answer {
  Given given;
  const char* says;
};

template <class Given = const char*, class F>
void expect_answers(F&& f, std::initializer_list<Answer<Given>> table) {
  for (const auto& [given, says] : table) EXPECT_EQ(f(given), says) << "given " << given;
}

// Of long answers, a part.
template <class Given = const char*, class F>
void expect_parts(F&& f, std::initializer_list<Answer<Given>> table) {
  for (const auto& [given, says] : table) {
    const std::string answer = f(given);
    EXPECT_NE(answer.find(says), std::string::npos)
        << answer << ", not " << says << ", given " << given;
  }
}

}  // namespace ebb::test

/* The Python of src/eval/python, as text in the program: CMake makes the arrays. They live forever. */
#ifndef MT_EVAL_CODE_PYTHON_H
#define MT_EVAL_CODE_PYTHON_H

extern const char mt_python_wire[];   // values between the two interpreters
extern const char mt_python_answer[]; // of the answer's
extern const char mt_python_tests[];  // of the tests'

#endif

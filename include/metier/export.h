/*
 * What every public header stands between: C names for C++ programs, and symbols that libmetier.so shows.
 * Everything else in the library is compiled hidden.
 */
#ifndef METIER_EXPORT_H
#define METIER_EXPORT_H

#ifdef __cplusplus
#define MT_PUBLIC_BEGIN                                                                                      \
    extern "C" {                                                                                             \
    _Pragma("GCC visibility push(default)")
#define MT_PUBLIC_END                                                                                        \
    _Pragma("GCC visibility pop")                                                                            \
    }
#else
#define MT_PUBLIC_BEGIN _Pragma("GCC visibility push(default)")
#define MT_PUBLIC_END   _Pragma("GCC visibility pop")
#endif

#endif
